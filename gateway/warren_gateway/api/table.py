"""Every route of the HTTP API, in one place."""

from warren_broker.remote.frames import PATH, Welcome
from warren_gateway.api.checking import check_run
from warren_gateway.api.checkpoints import run_checkpoints
from warren_gateway.api.dead_letters import (
    ListDeadLetters,
    drop_dead_letter,
    list_dead_letters,
    republish_dead_letter,
    show_dead_letter,
)
from warren_gateway.api.env_workers import connect_env_worker
from warren_gateway.api.events import run_events_live
from warren_gateway.api.files import ListFiles, ReadFile, run_file, run_files
from warren_gateway.api.fleet import list_queues, list_workers
from warren_gateway.api.health import show_health
from warren_gateway.api.openai.routes import (
    complete_chat,
    complete_text,
    generate_tokens,
    list_models,
    show_model,
)
from warren_gateway.api.route import Nothing, Route
from warren_gateway.api.runs import (
    ListRuns,
    cancel_run,
    delete_run,
    list_runs,
    show_run,
    submit_run,
)
from warren_gateway.api.trajectories import ReadTrajectories, run_trajectories
from warren_gateway.metrics.route import ReadMetrics, run_metrics
from warren_schemas.check import RunCheck
from warren_schemas.events import RunEvent
from warren_schemas.files import FileView, FolderView
from warren_schemas.http import (
    CheckpointList,
    DeadLetterDetails,
    DeadLetterList,
    DeadLetterView,
    Health,
    MetricsView,
    QueueList,
    RunDeleted,
    RunList,
    RunView,
    SubmitRun,
    TrajectoryView,
    WorkerList,
)
from warren_schemas.openai import (
    ChatCompletion,
    ChatRequest,
    CompletionRequest,
    GenerateRequest,
    GenerateResponse,
    ServedModel,
    ServedModels,
    TextCompletion,
)

AnyRoute = (
    Route[Nothing]
    | Route[ChatRequest]
    | Route[CompletionRequest]
    | Route[GenerateRequest]
    | Route[ListDeadLetters]
    | Route[ListFiles]
    | Route[ReadFile]
    | Route[ListRuns]
    | Route[ReadMetrics]
    | Route[ReadTrajectories]
    | Route[SubmitRun]
)

ROUTES: tuple[AnyRoute, ...] = (
    Route(
        "POST",
        "/v1/runs",
        submit_run,
        takes=SubmitRun,
        answers=RunView,
        summary="Submit a run; a repeated idempotency key answers 200 with the existing run",
        status=201,
        errors=(400, 409, 413, 422),
    ),
    Route(
        "POST",
        "/v1/runs/check",
        check_run,
        takes=SubmitRun,
        answers=RunCheck,
        summary="Check a config against the workers online and estimate its cost; submits nothing",
        errors=(400, 413, 422),
    ),
    Route(
        "GET",
        "/v1/runs",
        list_runs,
        takes=ListRuns,
        answers=RunList,
        summary="List runs, newest first",
        errors=(422,),
    ),
    Route(
        "GET",
        "/v1/runs/{run}",
        show_run,
        takes=Nothing,
        answers=RunView,
        summary="Show a run",
        errors=(404, 422),
    ),
    Route(
        "POST",
        "/v1/runs/{run}/cancel",
        cancel_run,
        takes=Nothing,
        answers=RunView,
        summary="Cancel a run",
        errors=(400, 404, 409, 413, 422),
    ),
    Route(
        "POST",
        "/v1/runs/{run}/delete",
        delete_run,
        takes=Nothing,
        answers=RunDeleted,
        summary="Delete an ended run with its recording, checkpoints and policies",
        errors=(400, 404, 409, 413, 422),
    ),
    Route(
        "GET",
        "/v1/runs/{run}/checkpoints",
        run_checkpoints,
        takes=Nothing,
        answers=CheckpointList,
        summary="List the checkpoints of a run, oldest first",
        errors=(404, 422),
    ),
    Route(
        "GET",
        "/v1/runs/{run}/files",
        run_files,
        takes=ListFiles,
        answers=FolderView,
        summary="List the files of a checkpoint or a policy, with their SHA-256",
        errors=(404, 409, 422),
    ),
    Route(
        "GET",
        "/v1/runs/{run}/file",
        run_file,
        takes=ReadFile,
        answers=FileView,
        summary="Download a file of a checkpoint or a policy, from any byte offset",
        errors=(404, 409, 422),
        media_type="application/octet-stream",
        ends_with_client=True,
    ),
    Route(
        "GET",
        "/v1/runs/{run}/events",
        run_events_live,
        takes=Nothing,
        answers=RunEvent,
        summary="Stream a run's events from the first, or after Last-Event-ID",
        errors=(404, 422),
        media_type="text/event-stream",
    ),
    Route(
        "GET",
        "/v1/runs/{run}/metrics",
        run_metrics,
        takes=ReadMetrics,
        answers=MetricsView,
        summary="Read a run's metrics of each step and evaluation, one JSON object per line",
        errors=(404, 422),
        media_type="application/x-ndjson",
    ),
    Route(
        "GET",
        "/v1/runs/{run}/trajectories",
        run_trajectories,
        takes=ReadTrajectories,
        answers=TrajectoryView,
        summary="Read a run's recorded trajectories, one JSON object per line",
        errors=(404, 410, 422),
        media_type="application/x-ndjson",
    ),
    Route(
        "GET",
        "/v1/models",
        list_models,
        takes=Nothing,
        answers=ServedModels,
        summary="List the models that you can query: base models online, policies of your runs",
        errors=(400,),
    ),
    Route(
        "GET",
        "/v1/models/{model}",
        show_model,
        takes=Nothing,
        answers=ServedModel,
        summary="Show a model",
        errors=(400, 404),
    ),
    Route(
        "POST",
        "/v1/chat/completions",
        complete_chat,
        takes=ChatRequest,
        answers=ChatCompletion,
        summary="Complete a chat with a base model or a trained policy (OpenAI-compatible)",
        errors=(400, 404, 413, 429, 502, 504),
        ends_with_client=True,
    ),
    Route(
        "POST",
        "/v1/completions",
        complete_text,
        takes=CompletionRequest,
        answers=TextCompletion,
        summary="Complete a text or a list of tokens (OpenAI-compatible)",
        errors=(400, 404, 413, 429, 502, 504),
        ends_with_client=True,
    ),
    Route(
        "POST",
        "/inference/v1/generate",
        generate_tokens,
        takes=GenerateRequest,
        answers=GenerateResponse,
        summary="Generate tokens from tokens (vLLM-compatible)",
        errors=(400, 404, 413, 429, 502, 504),
        ends_with_client=True,
    ),
    Route(
        "GET",
        "/v1/workers",
        list_workers,
        takes=Nothing,
        answers=WorkerList,
        summary="List the workers online",
        errors=(422,),
    ),
    Route(
        "GET",
        PATH,
        connect_env_worker,
        takes=Nothing,
        answers=Welcome,
        summary="Connect a remote env worker by WebSocket; the schema is that of the first frame",
        status=101,
        errors=(422, 426),
        media_type="application/octet-stream",
    ),
    Route(
        "GET",
        "/v1/queues",
        list_queues,
        takes=Nothing,
        answers=QueueList,
        summary="List queues with the number of messages in each",
        errors=(422,),
    ),
    Route(
        "GET",
        "/v1/dead-letters",
        list_dead_letters,
        takes=ListDeadLetters,
        answers=DeadLetterList,
        summary="List dead letters, oldest first",
        errors=(422,),
    ),
    Route(
        "GET",
        "/v1/dead-letters/{letter}",
        show_dead_letter,
        takes=Nothing,
        answers=DeadLetterDetails,
        summary="Show a dead letter with its items",
        errors=(404, 422),
    ),
    Route(
        "POST",
        "/v1/dead-letters/{letter}/republish",
        republish_dead_letter,
        takes=Nothing,
        answers=DeadLetterView,
        summary="Republish a dead letter to the queue that it came from",
        errors=(400, 404, 409, 413, 422),
    ),
    Route(
        "POST",
        "/v1/dead-letters/{letter}/drop",
        drop_dead_letter,
        takes=Nothing,
        answers=DeadLetterView,
        summary="Drop a dead letter",
        errors=(400, 404, 413, 422),
    ),
    Route(
        "GET",
        "/healthz",
        show_health,
        takes=Nothing,
        answers=Health,
        summary="Show the gateway's health; 503 while its store is unavailable",
        scope="public",
        errors=(422,),
    ),
)
