from ors.types import ImageBlock as ImageBlock
from ors.types import ListToolsOutput as ListToolsOutput
from ors.types import TextBlock as TextBlock
from ors.types import ToolOutput as ToolOutput
from ors.types import ToolSpec as ToolSpec
