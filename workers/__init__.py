"""The processes with weights in them: inference (SGLang), trainer (FSDP2), rollout."""

from workers.cpu_imports import stub_torchvision_registrations

stub_torchvision_registrations()
