"""Resource servers of nemo-gym 0.4.0, as they come in its wheel: `python server.py PORT`, in the environment of
`nemo_gym.txt`.

/counter/    example_session_state_mgmt: two tools, and a count for each session
/workplace/  workplace_assistant: 27 tools on mails, a calendar and customers
/questions/  mcqa: multiple choice, without a tool
/circles/    circle_count: a question about an image
/turns/      example_multi_turn_gymnasium: a `GymnasiumServer`, which asks further
/weather/    example_mcp_weather: a tool by MCP alone, and a verdict that wants it called
/keyed/      the same as /counter/, for who has the key
/clock/      ours, on its classes: a tool that says which process serves it

Each is the app that the package's `run_webserver` makes of its class, without the Ray cluster that this starts before.
"""

# pyright: basic, reportMissingImports=false
# (the package lies in an environment of its own)

import os
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import uvicorn
from fastapi import FastAPI
from nemo_gym.base_resources_server import (
    BaseResourcesServerConfig,
    BaseVerifyRequest,
    BaseVerifyResponse,
    SimpleResourcesServer,
)
from nemo_gym.server_utils import ServerClient
from resources_servers.circle_count.app import CircleCountResourcesServer
from resources_servers.example_mcp_weather.app import ExampleMCPWeatherResourcesServer
from resources_servers.example_multi_turn_gymnasium.app import ExampleMultiTurnEnv
from resources_servers.example_session_state_mgmt.app import StatefulCounterResourcesServer
from resources_servers.mcqa.app import MCQAResourcesServer
from resources_servers.workplace_assistant.app import WorkbenchResourcesServer

sys.path.append(str(Path(__file__).parents[1]))
from keyed import Keyed


class ClockServer(SimpleResourcesServer):
    """It rewards words by the sum of their bytes."""

    def setup_webserver(self) -> FastAPI:
        app = super().setup_webserver()
        app.post("/who")(self.who)
        return app

    async def who(self) -> dict[str, int]:
        return {"pid": os.getpid()}

    async def verify(self, body: BaseVerifyRequest) -> BaseVerifyResponse:
        checksum = sum(body.response.output_text.encode())
        return BaseVerifyResponse(**body.model_dump(), reward=checksum % 7 / 6)


SERVERS: dict[str, type[SimpleResourcesServer]] = {
    "counter": StatefulCounterResourcesServer,
    "workplace": WorkbenchResourcesServer,
    "questions": MCQAResourcesServer,
    "circles": CircleCountResourcesServer,
    "turns": ExampleMultiTurnEnv,
    "clock": ClockServer,
    "weather": ExampleMCPWeatherResourcesServer,
}


def app_of(name: str, kind: type[SimpleResourcesServer]) -> FastAPI:
    settings = kind.model_fields["config"].annotation or BaseResourcesServerConfig
    server = kind(
        config=settings(host="127.0.0.1", port=0, entrypoint="app.py", name=name),
        server_client=ServerClient.model_construct(),
    )
    app = server.setup_webserver()
    server.setup_liveness(app)
    server.setup_exception_middleware(app)
    return app


def whole() -> FastAPI:
    """All servers; one that offers tools by MCP lives as long as the whole does."""
    apps = {name: app_of(name, kind) for name, kind in SERVERS.items()}

    @asynccontextmanager
    async def living(_: FastAPI) -> AsyncGenerator[None]:
        async with AsyncExitStack() as stack:
            for app in apps.values():
                await stack.enter_async_context(app.router.lifespan_context(app))
            yield

    all_of_them = FastAPI(lifespan=living)
    for name, app in apps.items():
        all_of_them.mount(f"/{name}", app)
    all_of_them.mount("/keyed", Keyed(app_of("keyed", StatefulCounterResourcesServer)))
    return all_of_them


if __name__ == "__main__":
    uvicorn.run(whole(), host="127.0.0.1", port=int(sys.argv[1]), timeout_keep_alive=30)
