"""What the report says above the figures of each kind of step: what was measured, and of what a figure is the mean."""

NOTES = {
    "machine": (
        "What all figures below were measured with. The two ceilings are the GPU's own: a product of two 8,192 by 8,192 matrices in"
        " bfloat16, and a copy of 4 GiB within its memory, each the median of ten. Then which kernels and packages load here, with the"
        " reason where they don't; those for GPUs don't on a CPU."
    ),
    "start": (
        "vLLM starts in a process of its own and answers four short turns; the time is of both. If it does not start with the"
        " attention kernels that it chooses, Triton's are tried, and all later steps use what worked."
    ),
    "exactness": (
        "16 turns of 48 tokens are sampled from a policy that was trained for one step (*one version*), and then 16 more, whose weights"
        " are exchanged for those of the next step once each has 20 tokens (*in flight*), with the cache computed anew. A gap is the"
        " difference, in nats, between the logprob that vLLM gave with a token and the trainer's by the same weights; its mean and"
        " maximum are over the tokens of the row, as is KL (k3), the mean of r - 1 - ln r for r = p(trainer) / p(sampler). In float32 only"
        " rounding is left of it. The seconds from an optimizer step to the first token of the new version hold publishing,"
        " fetching and loading; of them, those in which vLLM loads are told by themselves, for nothing is sampled then."
    ),
    "sleep": (
        "vLLM frees its memory and takes it back, twice: how much more of the GPU's memory was free meanwhile, how long both take, and"
        " whether greedy answers are the same afterwards."
    ),
    "images": (
        "8 turns of up to 10 tokens, each about a picture of noise, by a tiny Qwen2.5-VL with random weights in float32: the largest"
        " difference of a logprob from that of transformers, in nats."
    ),
    "update": (
        "A step is the forward and backward pass of 16 sequences and one of AdamW. Each sequence has a prompt of 512 tokens and an"
        " answer of 1,536 (24 and 24 on a CPU). After one step to warm up, steps are counted for 6 s (1 s on a CPU), and figures are means"
        " over them; tokens/s counts prompts as well. MFU is the share of the bfloat16 TFLOP/s above, and peak GiB the most that torch"
        " had of the GPU's memory; a CPU has neither. A policy is what samplers load, a checkpoint what training goes on from; each"
        " was written once, to the local disk."
    ),
    "sampling": (
        "So many turns at once (*live*), each of 256 tokens (16 on a CPU) after a prompt of 25, with a logprob for every token; tokens/s are all"
        " sampled tokens over the time of the whole round, the second of two. *own*: vLLM's `LLM` as its users start it, with its own"
        " defaults and in its own processes. *queue*: Warren's sampler, asked through its queue. *gateway*: through the gateway's HTTP"
        " API, which users ask. The start is the time until the first turn can be asked."
    ),
    "grpo": (
        "Whole runs with all parts as `warren up` starts them: groups of 8 episodes of one turn each, 16 groups a step (2 on a CPU), with"
        " rewards by chance. Figures are means over all steps after the first. The share of time in which the GPU idles is that of NVML's"
        " answers, one every 50 ms, which say that nothing runs on it. On a GPU, full weights are sampled and trained in turns, by"
        " vLLM's sleep mode, and adapters side by side."
    ),
    "trl_grpo": (
        "The peer of those runs: TRL's trainer on the same shapes, with as many episodes a step, of the same lengths and with rewards by"
        " chance; whatever else there is to set has TRL's default. On a GPU it samples by vLLM in its own process, on a CPU by"
        " transformers. Figures are those of the runs above; compare `s for a step` and `episodes/s` line by line."
    ),
}
"""By kind of step."""
HIDDEN = frozenset({"attention"})
"""Figures that later steps ask for, and that tell a reader nothing."""
