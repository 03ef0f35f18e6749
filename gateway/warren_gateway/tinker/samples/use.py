"""What a sample took of the samplers."""

from collections.abc import Sequence

from warren_gateway.inference.sampler_requests import Answer, Question
from warren_gateway.usage.counting import SampleUse
from warren_schemas.episode import Step


def use_of(question: Question, answers: Sequence[Answer], more: Sequence[Answer]) -> SampleUse:
    """`more` was asked about the answers: it took time, and sampled nothing that the client gets."""
    sampled = [answer.transcript for answer in answers if isinstance(answer, Step)]
    asked_later = [answer.transcript for answer in more if isinstance(answer, Step)]
    return SampleUse(
        model=question.policy.model,
        base_model=question.policy.base_model,
        n_tokens_prompt=_n_prompt(question),
        n_tokens_sampled=sum(transcript.n_sampled for transcript in sampled),
        gpu_s=sum(transcript.times.sampling_gpu_s for transcript in [*sampled, *asked_later]),
    )


def _n_prompt(question: Question) -> int:
    """Of images, as many as the client expects."""
    shown = None if question.options is None else question.options.prompt
    if shown is None:
        return len(question.transcript.tokens)
    return shown.ids_T.size + sum(image.n_expected or 0 for image in shown.images)
