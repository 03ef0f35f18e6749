class LoRARequest:
    lora_int_id: int
    def __init__(
        self,
        lora_name: str,
        lora_int_id: int,
        lora_path: str,
        *,
        load_inplace: bool = ...,
    ) -> None: ...
