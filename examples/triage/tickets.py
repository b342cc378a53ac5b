"""Support tickets of an invented shop: what customers write, and the order each ticket is about.

Owns the texts, the split and the invented personal details in about a third of them: addresses at example domains,
telephone numbers of the fictional 555-01xx range, random card numbers and IBANs with right check digits. The same
seed gives the same tickets. Held-out tickets use sentences, ways to name an order and orders that no training ticket uses,
so that remembering does not help. First names occur too; they are not listed as personal values: patterns don't find names.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final, Literal

Split = Literal["train", "held_out"]

_SEED: Final = 20
_PERSONAL_SHARE: Final = 0.35
_NUM_TICKETS: Final[dict[Split, int]] = {"train": 400, "held_out": 160}

_TRAIN: Final = (
    "I was charged twice for the {item}.",
    "The invoice for my {item} shows the wrong amount.",
    "Please refund the money for the {item} I returned {when}.",
    "Why is there a fee of 9 euros on my bill?",
    "My payment for the {item} was taken but the order says unpaid.",
    "I need a receipt with VAT for the {item}.",
    "The discount was not taken off the price of the {item}.",
    "You still bill me for the subscription I ended {when}.",
    "My card was debited {when} and I bought nothing.",
    "The total I paid for the {item} is higher than the price shown.",
    "Can I pay for the {item} in three instalments?",
    "I have not got my refund for the {item} yet.",
    "Please send the invoice of {since} again.",
    "The price on my invoice is not the price I agreed to.",
    "My parcel with the {item} has not arrived.",
    "The tracking number for the {item} shows nothing since {since}.",
    "The courier left the {item} at the wrong house.",
    "When will the {item} be delivered?",
    "The box came {when} but the {item} was missing from it.",
    "Please send the {item} to another address, it has not left yet.",
    "The delivery of my {item} is five days late.",
    "The package with the {item} was wet and torn when it came.",
    "Can you ship the {item} to Norway?",
    "The driver said he rang {when}, but nobody came with the {item}.",
    "I want to pick up the {item} at the parcel shop instead.",
    "My {item} is stuck in customs since {since}.",
    "Has the {item} been shipped yet?",
    "The parcel went back to the sender {when}, please send it again.",
    "I forgot my password and the reset mail never comes.",
    "I have no idea what my user name was.",
    "I cannot log in since {since}.",
    "The sign-in page rejects my password.",
    "My account was locked {when} after three wrong passwords.",
    "I want to use another e-mail address to sign in.",
    "Somebody else signed in with my password {when}.",
    "The code for the two-step login does not reach my phone.",
    "I get signed out every few minutes.",
    "How can I change my password?",
    "I signed up {when} but cannot confirm my registration.",
    "I never got the code to sign in.",
    "It says my login is unknown although I registered {when}.",
    "I want to reset my password, but the link is dead.",
    "The app crashes when I open the page of the {item}.",
    "The {item} does not switch on any more.",
    "Since the update {when} the app is very slow.",
    "The {item} shows error 43 and stops.",
    "The search on your website gives a blank page.",
    "The {item} will not connect to my wifi.",
    "The screen of the {item} flickers since {since}.",
    "How do I install the driver of the {item}?",
    "The software of the {item} freezes all the time.",
    "The {item} makes a loud noise and gets hot.",
    "The app does not find the {item} over bluetooth.",
    "The firmware of the {item} fails to update.",
    "The button on the {item} stopped working {when}.",
    "Your website shows error 500 when I look at the {item}.",
)

_HELD_OUT: Final = (
    "The same purchase appears two times on my bank statement.",
    "I sent back the {item} {when}, where is my money?",
    "My bill lists a {item} that I never bought.",
    "The voucher did not lower what I had to pay for the {item}.",
    "Please correct the tax on the invoice of the {item}.",
    "You took too much money for the {item}.",
    "I was billed for next month although I cancelled {when}.",
    "How can I pay the open amount for the {item}?",
    "I am still waiting for the {item} to come in the post.",
    "Where is my package? It was due {when}.",
    "The postman gave the {item} to a neighbour I do not know.",
    "The carrier lost the {item} on the way.",
    "Do you deliver the {item} to islands?",
    "Nothing was in the parcel that came {when}.",
    "Which day will the courier bring the {item}?",
    "The tracking page says the {item} is in another country.",
    "It does not accept my password any more.",
    "I no longer know which user name I chose.",
    "Signing in fails since {since}.",
    "A stranger uses my login since {since}.",
    "How can I set a new password?",
    "My account is blocked, please open it.",
    "I am locked out after too many attempts {when}.",
    "The mail to set up my password did not come.",
    "The app closes by itself as soon as I tap on the {item}.",
    "My {item} is dead, no light, no sound.",
    "The {item} loses its bluetooth connection every minute.",
    "An error message comes up when I start the {item}.",
    "The pictures on your website do not load.",
    "After the last update the {item} does not respond.",
    "The {item} is broken, it restarts again and again.",
    "How do I reset the settings of the {item}?",
)

_ORDER_PHRASES: Final[dict[Split, tuple[str, ...]]] = {
    "train": ("Order {order}.", "It is order {order}.", "My order is {order}.", "Order number {order}.", "(order {order})"),
    "held_out": ("This is about order {order}.", "Order no. {order}.", "The order number is {order}.", "I ordered it as {order}."),
}
EXAMPLE_ORDER: Final = 1234
"""The number in the agent's prompt; no ticket has it, so repeating it is never right."""

_ITEMS: Final = ("headset", "lamp", "keyboard", "camera", "speaker", "router", "watch", "printer", "tablet", "kettle")
_WHEN: Final = ("yesterday", "on Monday", "last week", "on 3 May", "two days ago", "this morning")
_SINCE: Final = ("Monday", "last week", "3 May", "yesterday", "this morning", "Friday")
_OPENERS: Final = ("", "", "Hello,", "Hi,", "Good morning,", "Dear team,", "Please help.")
_CLOSERS: Final = ("", "", "Thanks.", "Thank you, {name}", "Regards, {name}", "{name}")
_NAMES: Final = ("Ana", "Tom", "Li", "Eva", "Omar", "Nina", "Paul", "Mia", "Ravi", "Jo")
_CONTACTS: Final = (
    ("email", 5, ("My mail is {value}.", "Write to {value}.", "You reach me at {value}.")),
    ("phone", 3, ("Call {value}.", "My number is {value}.")),
    ("card", 1, ("My card is {value}.",)),
    ("iban", 1, ("My IBAN is {value}.",)),
)


@dataclass(frozen=True, slots=True)
class Ticket:
    """One message of a customer. `personal` holds the values in `text` that must never lie unredacted on a disk."""

    id: str
    text: str
    order: int
    personal: tuple[str, ...]


def tickets(split: Split) -> list[Ticket]:
    """All tickets of a split, in a fixed order, each about another order."""
    rng = random.Random(f"{_SEED}-{split}")
    half = [number for number in range(1000, 10_000) if number % 2 == (split == "train") and number != EXAMPLE_ORDER]
    orders = rng.sample(half, _NUM_TICKETS[split])
    return [_make_ticket(rng, split, order, f"{split}-{number:03d}") for number, order in enumerate(orders)]


def personal_values() -> list[str]:
    """Every personal value in every ticket: what a byte search of the data directory must not find."""
    found = {value for split in ("train", "held_out") for ticket in tickets(split) for value in ticket.personal}
    return sorted(found)


def _make_ticket(rng: random.Random, split: Split, order: int, ticket_id: str) -> Ticket:
    name = rng.choice(_NAMES)
    slots = {"item": rng.choice(_ITEMS), "when": rng.choice(_WHEN), "since": rng.choice(_SINCE)}
    complaint = rng.choice(_TRAIN if split == "train" else _HELD_OUT).format(**slots)
    naming = rng.choice(_ORDER_PHRASES[split]).format(order=order)
    parts = [rng.choice(_OPENERS), *rng.sample([complaint, naming], 2)]
    personal: tuple[str, ...] = ()
    if rng.random() < _PERSONAL_SHARE:
        kind, _, phrases = rng.choices(_CONTACTS, weights=[weight for _, weight, _ in _CONTACTS])[0]
        personal = (_personal_value(rng, kind, name),)
        parts.append(rng.choice(phrases).format(value=personal[0]))
    parts.append(rng.choice(_CLOSERS).format(name=name))
    return Ticket(id=ticket_id, text=" ".join(part for part in parts if part), order=order, personal=personal)


def _personal_value(rng: random.Random, kind: str, name: str) -> str:
    if kind == "email":
        return f"{name.lower()}{rng.randrange(10, 100)}@example.{rng.choice(('com', 'org', 'net'))}"
    if kind == "phone":
        return f"{rng.choice(('212', '415', '617', '303'))}-555-01{rng.randrange(100):02d}"
    if kind == "card":
        return _with_luhn_digit("4" + "".join(str(rng.randrange(10)) for _ in range(14)))
    return _iban("DE", "".join(str(rng.randrange(10)) for _ in range(18)))


def _with_luhn_digit(digits: str) -> str:
    """Append the check digit of ISO/IEC 7812-1 annex B."""
    total = 0
    for position, digit in enumerate(reversed(digits)):
        doubled = int(digit) * 2 if position % 2 == 0 else int(digit)
        total += doubled - 9 if doubled > 9 else doubled
    return digits + str(-total % 10)


def _iban(country: str, account: str) -> str:
    """Put the two check digits of ISO 13616 (mod 97) in front of an account number."""
    letters = "".join(str(ord(letter) - 55) for letter in country)
    check = 98 - int(f"{account}{letters}00") % 97
    return f"{country}{check:02d}{account}"
