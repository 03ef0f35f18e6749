from collections.abc import Sequence

class FileDescriptorProto: ...

class FileDescriptorSet:
    file: Sequence[FileDescriptorProto]
    @classmethod
    def FromString(cls, data: bytes) -> FileDescriptorSet: ...
