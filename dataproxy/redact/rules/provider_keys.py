"""API keys of well-known providers, by the prefix that each gives its keys so that leaked ones can be found.

The forms are those of the providers' own documentation and of public secret scanners (gitleaks, GitHub secret scanning).
"""

import re

from dataproxy.redact.folding import View
from dataproxy.redact.rules.rule import Hit, Rule, by_pattern, hit

_ALNUM = rb"[A-Za-z0-9]"
_WORD = rb"[A-Za-z0-9_\-]"
_HEX = rb"[0-9a-fA-F]"

_FORMS: tuple[tuple[bytes, bytes, int], ...] = (
    # OpenAI, Anthropic, OpenRouter, DeepSeek, Langfuse, Stripe and its webhooks, Headrace's own
    (rb"sk-", _WORD, 20),
    (rb"[srp]k_(?:live|test)_", _ALNUM, 16),
    (rb"whsec_", rb"[A-Za-z0-9+/=]", 24),
    (rb"hr_", _WORD, 16),
    # AWS key ids and Bedrock keys
    (rb"A(?:KIA|SIA|BIA|CCA)", rb"[0-9A-Z]", 16),
    (rb"ABSK", rb"[A-Za-z0-9+/=]", 100),
    # Google: API keys, access and refresh tokens, client secrets, Gemini
    (rb"AIza", _WORD, 35),
    (rb"ya29\.", rb"[A-Za-z0-9_\-.]", 20),
    (rb"1//0", _WORD, 28),
    (rb"GOCSPX-", _WORD, 28),
    (rb"AQ\.A", _WORD, 30),
    # GitHub, GitLab, npm, PyPI, Docker, RubyGems
    (rb"gh[pousr]_", _ALNUM, 30),
    (rb"github_pat_", rb"[A-Za-z0-9_]", 22),
    (rb"gl(?:pat|dt|rt|ptt|cbt|soat)-", rb"[A-Za-z0-9_.\-]", 20),
    (rb"npm_", _ALNUM, 36),
    (rb"pypi-AgE", _WORD, 40),
    (rb"dckr_(?:pat|oat)_", _WORD, 24),
    (rb"rubygems_", _HEX, 48),
    # Slack, Telegram, Discord webhooks, Notion, Linear, Figma, Atlassian, Airtable
    (rb"xox[abeoprs]-", rb"[A-Za-z0-9\-]", 10),
    (rb"xapp-", rb"[A-Za-z0-9\-]", 20),
    (rb"hooks\.slack\.com/services/", rb"[A-Za-z0-9/]", 30),
    (rb"[0-9]{8,10}:AA", _WORD, 32),
    (rb"discord(?:app)?\.com/api/webhooks/", rb"[A-Za-z0-9_\-/]", 40),
    (rb"(?:ntn|secret)_", _ALNUM, 40),
    (rb"lin_(?:api|oauth)_", _ALNUM, 32),
    (rb"figd_", _WORD, 36),
    (rb"ATATT3", rb"[A-Za-z0-9_\-=]", 60),
    (rb"pat", rb"[A-Za-z0-9]{14}\.[0-9a-f]", 60),
    # models: Hugging Face, Groq, xAI, Perplexity, Replicate, Fireworks, NVIDIA, Cerebras, Together, Tavily, LangSmith, Pinecone,
    # Weights & Biases
    (rb"hf_", _ALNUM, 30),
    (rb"api_org_", _ALNUM, 30),
    (rb"gsk_", _ALNUM, 40),
    (rb"xai-", _ALNUM, 60),
    (rb"pplx-", _ALNUM, 40),
    (rb"r8_", _ALNUM, 36),
    (rb"fw_", _ALNUM, 20),
    (rb"nvapi-", _WORD, 50),
    (rb"csk-", _ALNUM, 40),
    (rb"tgp_v1_", _WORD, 30),
    (rb"tvly-", _WORD, 24),
    (rb"lsv2_(?:pt|sk)_", rb"[0-9a-f_]", 32),
    (rb"pcsk_", rb"[A-Za-z0-9_]", 40),
    (rb"wandb_v1_", _WORD, 40),
    # mail, shops, telephony: SendGrid, Mailgun, Mailchimp, Shopify, Square, Twilio
    (rb"SG\.", rb"[A-Za-z0-9_\-.]", 32),
    (rb"key-", rb"[0-9a-f]", 32),
    (rb"[0-9a-f]{32}-us", rb"[0-9]", 1),
    (rb"shp(?:at|ss|ca|pa)_", _HEX, 32),
    (rb"sq0[a-z]{3}-", _WORD, 22),
    (rb"SK", rb"[0-9a-f]", 32),
    # clouds and operations: DigitalOcean, Databricks, Vault, Grafana, Supabase, Sentry, New Relic, Doppler, Netlify, PlanetScale,
    # age
    (rb"do[opr]_v1_", _HEX, 64),
    (rb"dapi", rb"[0-9a-f]", 32),
    (rb"hv[sbr]\.", _WORD, 24),
    (rb"gl(?:sa|c)_", rb"[A-Za-z0-9+/=_]", 32),
    (rb"sb(?:p|_secret)_", _WORD, 24),
    (rb"sntry[su]_", rb"[A-Za-z0-9+/=_]", 40),
    (rb"NRAK-", rb"[A-Z0-9]", 27),
    (rb"dp\.(?:pt|st|ct)\.", _WORD, 40),
    (rb"nfp_", _ALNUM, 36),
    (rb"pscale_(?:tkn|oauth|pw)_", rb"[A-Za-z0-9_\-.=]", 32),
    (rb"AGE-SECRET-KEY-1", rb"[A-Z0-9]", 58),
    # Azure: Entra client secrets and keys with Microsoft's checksum
    (rb"[A-Za-z0-9_~.\-]{3}[78]Q~", rb"[A-Za-z0-9_~.\-]", 31),
    (rb"[A-Za-z0-9]{52}JQQJ99", _ALNUM, 26),
)
"""(how a key begins, what the rest is made of, how much of that it has at least)."""

_KEY = rb"(?<![A-Za-z0-9])(?:" + b"|".join(rb"%b%b{%d,}+" % form for form in _FORMS) + rb")"
_TRIGGER = b"|".join(rb"%b%b{%d}" % form for form in _FORMS)


def _api_key(_: View, match: re.Match[bytes]) -> Hit | None:
    return hit(match) if any(48 <= byte <= 57 or 65 <= byte <= 90 for byte in match[0][4:]) else None


RULES = (Rule("api_key", "API_KEY", 1.0, 85, _TRIGGER, by_pattern(_KEY, _api_key)),)
