"""What TensorBoard's plugins read beside curves, made from their messages alone: no tensorflow, no torch."""

# tensorboard has neither types nor stubs, and its messages are classes made at run time
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false
# pyright: reportAttributeAccessIssue=false

import yaml
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.custom_scalar import layout_pb2
from tensorboard.plugins.custom_scalar import metadata as custom_scalars
from tensorboard.plugins.hparams import api_pb2, plugin_data_pb2
from tensorboard.plugins.hparams import metadata as hparams
from tensorboard.plugins.text import metadata as text
from tensorboard.util import tensor_util

from warren_schemas.config import TrainConfig
from warren_schemas.events import RunState
from warren_schemas.metrics.registry import find, tensorboard_tag
from warren_schemas.tensorboard.about import About, hyperparameters
from warren_schemas.tensorboard.layout import LAYOUT, pattern

CONFIG_TAG = "config"
END_TAG: str = hparams.SESSION_END_INFO_TAG
RESULTS = ("reward/mean", "evaluation/reward_mean")
"""What the HParams tab compares runs in; it shows the last value."""


def header(about: About) -> list[Summary.Value]:
    """What is known of a run before its first step."""
    values = [_layout()]
    if about.config is not None:
        values += [_config(about.config), _experiment(about.config), _session(about, about.config)]
    return values


def end(state: RunState, at_s: float) -> Summary.Value:
    """How the run ended, for the HParams tab."""
    is_good = state is RunState.COMPLETED
    status = api_pb2.STATUS_SUCCESS if is_good else api_pb2.STATUS_FAILURE
    info = plugin_data_pb2.SessionEndInfo(status=status, end_time_secs=at_s)
    return _hparams(END_TAG, session_end_info=info)


def _layout() -> Summary.Value:
    categories = [
        layout_pb2.Category(title=title, chart=[_chart(*chart) for chart in charts.items()])
        for title, charts in LAYOUT.items()
    ]
    content = layout_pb2.Layout(category=categories).SerializeToString()
    return Summary.Value(
        tag=custom_scalars.CONFIG_SUMMARY_TAG,
        metadata=custom_scalars.create_summary_metadata(),
        tensor=tensor_util.make_tensor_proto(content),
    )


def _chart(title: str, tags: tuple[str, ...]) -> layout_pb2.Chart:
    lines = layout_pb2.MultilineChartContent(tag=[pattern(tag) for tag in tags])
    return layout_pb2.Chart(title=title, multiline=lines)


def _config(config: TrainConfig) -> Summary.Value:
    words = yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
    shown = f"```yaml\n{words}```"
    return Summary.Value(
        tag=CONFIG_TAG,
        metadata=text.create_summary_metadata("config", "The run's config, with all defaults."),
        tensor=tensor_util.make_tensor_proto([shown.encode()]),
    )


def _experiment(config: TrainConfig) -> Summary.Value:
    settings = [
        api_pb2.HParamInfo(name=name, type=_type(value))
        for name, value in hyperparameters(config).items()
    ]
    results = [
        api_pb2.MetricInfo(
            name=api_pb2.MetricName(tag=tensorboard_tag(tag)), display_name=tag,
            description=line.of if (line := find(tag)) else "",
        )
        for tag in RESULTS
    ]  # fmt: skip
    experiment = api_pb2.Experiment(hparam_infos=settings, metric_infos=results)
    return _hparams(hparams.EXPERIMENT_TAG, experiment=experiment)


def _session(about: About, config: TrainConfig) -> Summary.Value:
    info = plugin_data_pb2.SessionStartInfo(
        group_name=about.folder, start_time_secs=about.created_s, model_uri=about.run
    )
    for name, value in hyperparameters(config).items():
        if isinstance(value, str):
            info.hparams[name].string_value = value
        else:
            info.hparams[name].number_value = value
    return _hparams(hparams.SESSION_START_INFO_TAG, session_start_info=info)


def _type(value: str | float) -> int:
    is_text = isinstance(value, str)
    return api_pb2.DATA_TYPE_STRING if is_text else api_pb2.DATA_TYPE_FLOAT64


def _hparams(tag: str, **data: object) -> Summary.Value:
    content = plugin_data_pb2.HParamsPluginData(**data)
    return Summary.Value(
        tag=tag, metadata=hparams.create_summary_metadata(content), tensor=hparams.NULL_TENSOR
    )
