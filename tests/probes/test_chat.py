"""Chat templates: what is asked is what the tokenizer's own template makes of it, and only what is said is scored."""

from __future__ import annotations

import json
from datetime import datetime

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from fathom.base.errors import BadInput
from fathom.data.knowledge import KnowledgeGraph
from fathom.data.prompts.reasoning import Cut, Cutter
from fathom.data.queries import CandidateSet, Query, QuerySet, Relation
from fathom.data.templates import Prompt, Span, Template
from fathom.engine.models.base import Reply
from fathom.engine.models.chat import ChatTemplate, ShuffledChat
from fathom.engine.models.checks import token_log_probs
from fathom.engine.scoring.tokens import Role, encode_causal
from fathom.probes import PROBES
from fathom.probes.choice import ChoiceProbe
from fathom.probes.models import open_model
from fathom.probes.run import RunRequest, run
from fathom.results.compare import compare
from fathom.results.estimates import recipe
from fathom.results.rows import Rows
from fathom.store.folder import RunFolder
from tests.conftest import build, load_gpt2, make_local
from tests.engine.test_server import completion
from tests.messages import correspond, mentioned, mentions, stated
from tests.scripted import ScriptedModel

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
LLAMA = (
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system here') }}"
    "{% elif m.role == 'user' %}[INST] {{ m.content }} [/INST]{% else %} {{ m.content }} {{ eos_token }}{% endif %}"
    "{% endfor %}"
)
THINKING = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}<think>\n\n</think>\n\n{% endif %}"
    "{{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined and enable_thinking is false %}<think>\n\n</think>\n\n{% endif %}{% endif %}"
)
DATED = "<|im_start|>system\nToday: {{ strftime_now('%d %b %Y') }}<|im_end|>\n" + CHATML
NAMES = ("Paris", "Lima", "Oslo", "San Jose")
HEADS = ("France", "Peru", "Norway", "Costa Rica")


def dressed(tokenizer, template: str = CHATML):
    """With a template, and its signs as special tokens, as published chat models have them."""
    tokenizer.chat_template = template
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
    return tokenizer


@pytest.fixture(params=["gpt2", "small"])
def tokenizer(request):
    return dressed(load_gpt2(request.getfixturevalue("shared_data")) if request.param == "gpt2" else small_tokenizer())


def small_tokenizer() -> PreTrainedTokenizerFast:
    """Single bytes, as GPT-2 writes them: every text can be tokenised."""
    signs = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(models.BPE({sign: number for number, sign in enumerate([*signs, "<|endoftext|>"])}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<|endoftext|>", eos_token="<|endoftext|>")


@pytest.fixture
def model(tokenizer):
    network = build("GPT2LMHeadModel", vocab_size=len(tokenizer), n_layer=2, n_head=2, n_embd=32, n_positions=1024)
    return make_local(network, tokenizer)


@pytest.fixture
def data() -> QuerySet:
    templates = (Template("The capital of [X] is [Y]."), Template("[Y] is in [X]."))
    queries = tuple(
        Query(f"P36/{place}", "P36", head, head, (name,), "P36")
        for place, (head, name) in enumerate(zip(HEADS, NAMES, strict=True))
    )
    questions = (Template("What is the capital of [X]? [Y]"),)
    relations = {"P36": Relation("P36", "capital", templates, "1:1", questions=questions)}
    facts = [(head, "P36", name) for head, name in zip(HEADS, NAMES, strict=True)]
    graph = KnowledgeGraph.from_triples(facts, {name: name for name in (*HEADS, *NAMES)})
    return QuerySet("tiny", queries, {"P36": CandidateSet("P36", NAMES, NAMES)}, relations, graph=graph)


def rows(folder) -> list[dict]:
    return folder.predictions().to_pylist()


# ------------------------------------------------------------------------------------------------------- the template


def test_the_ids_asked_are_those_of_the_tokenizer(tokenizer):
    template = ChatTemplate(tokenizer, "Be brief.")
    asked = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Where?"}]
    ids = tokenizer(template.turn("Where?"), add_special_tokens=False)["input_ids"]
    assert ids == tokenizer.apply_chat_template(asked, add_generation_prompt=True, return_dict=False)

    said = "Lima is in Peru."
    [tokens] = encode_causal(
        tokenizer, [Prompt(said, (), (Span(0, 4),)).with_context(template.before_reply("Where?"))], None
    )
    whole = [*asked, {"role": "assistant", "content": said}]
    expected = tokenizer.apply_chat_template(whole, continue_final_message=True, return_dict=False)
    assert tokens.ids.tolist() == expected
    assert (tokens.roles == Role.SPECIAL).sum() == len(ids)
    assert tokenizer.decode(tokens.ids[tokens.roles != Role.SPECIAL]) == said
    assert tokenizer.decode(tokens.ids[tokens.roles == Role.ANSWER]) == "Lima"


def test_what_a_template_writes_before_finished_words_is_before_the_reply(tokenizer):
    """An empty thought, as Qwen3's template writes it, which the start of a reply lacks."""
    tokenizer.chat_template = THINKING
    template = ChatTemplate(tokenizer)
    start = "<|im_start|>user\nWhere?<|im_end|>\n<|im_start|>assistant\n"
    assert template.turn("Where?") == start
    assert template.before_reply("Where?") == f"{start}<think>\n\n</think>\n\n"
    conversation = [{"role": "user", "content": "Where?"}, {"role": "assistant", "content": "Here."}]
    rendered = tokenizer.apply_chat_template(conversation, tokenize=False)
    assert rendered == f"{template.before_reply('Where?')}Here.<|im_end|>\n"


@pytest.mark.parametrize("value", ["false", "False"])
def test_variables_reach_the_template(tokenizer, value):
    tokenizer.chat_template = THINKING
    template = ChatTemplate(tokenizer, "", [f"enable_thinking={value}"])
    asked = [{"role": "user", "content": "Where?"}]
    expected = tokenizer.apply_chat_template(asked, tokenize=False, add_generation_prompt=True, enable_thinking=False)
    assert template.turn("Where?") == expected
    assert expected.endswith("<think>\n\n</think>\n\n")
    shuffled = ShuffledChat(tokenizer, "", [f"enable_thinking={value}"]).turn("Where?")
    assert sorted(shuffled) == sorted(expected)


def test_variables_are_what_they_say(tokenizer):
    """JSON where it is JSON, else a text; a day for a template's clock."""
    tokenizer.chat_template = "{{ day }}|{{ steps + 1 }}|{{ strftime_now('%d %b') + strftime_now( \"%Y\" ) }}|" + CHATML
    template = ChatTemplate(tokenizer, "", ["day=26 Jul, 2024", "steps=2", "strftime_now=2026-07-26"])
    assert template.frame().startswith("26 Jul, 2024|3|26 Jul2026|<|im_start|>")


def test_a_template_writes_one_time_in_all_prompts(tokenizer, today):
    """Also where a run goes on after midnight."""
    tokenizer.chat_template = DATED
    today("2026-12-31")
    template = ChatTemplate(tokenizer)
    today("2027-01-01")
    assert "31 Dec 2026" in template.turn("Where?")
    assert "31 Dec 2026" in template.before_reply("Where?")
    assert "01 Jan 2027" in ChatTemplate(tokenizer).turn("Where?")


@pytest.mark.parametrize("template", ["{{ strftime_now('%Y') }}", "{% set form = '%Y' %}{{ strftime_now(form) }}"])
def test_a_day_is_fixed_or_refused(tokenizer, template):
    tokenizer.chat_template = template + CHATML
    if "form" in template:
        with pytest.raises(BadInput, match=mentions("strftime_now=2026-07-26", "form")):
            ChatTemplate(tokenizer, "", ["strftime_now=2026-07-26"])
    else:
        assert ChatTemplate(tokenizer, "", ["strftime_now=2026-07-26"]).frame().startswith("2026")


@pytest.mark.parametrize(
    "argument", ["enable_thinkng=false", "messages=x", "strftime_now=today", "steps=2", "role=1", "content=x"]
)
def test_variables_that_no_template_reads(tokenizer, argument):
    tokenizer.chat_template = "{{ strftime_now('%Y') }}" + THINKING
    with pytest.raises(BadInput, match=mentions("--chat-arguments", argument)):
        ChatTemplate(tokenizer, "", [argument])


@pytest.mark.parametrize(("arguments", "found"), [
    (("enable_thinking",), "NAME=VALUE"),
    (("=false",), "NAME=VALUE"),
    (("a=1", "a=2"), "once"),
])  # fmt: skip
def test_variables_without_a_value(arguments, found):
    with pytest.raises(ValueError, match=found):
        PROBES["statement"].options(chat_arguments=arguments)


def test_variables_may_be_a_mapping():
    options = PROBES["statement"].options(chat_arguments={"enable_thinking": False, "date_string": "26 Jul, 2024"})
    assert options.chat_arguments == ("enable_thinking=false", "date_string=26 Jul, 2024")


@pytest.mark.parametrize(("before", "written"), [
    ("", ""),
    ("{{ bos_token }}", ""),
    ("<|im_start|>system\nBe kind.<|im_end|>\n", "Be kind."),
    ("{% if messages[0].role != 'system' %}<|im_start|>system\nBe kind.<|im_end|>\n{% endif %}", "Be kind."),
])  # fmt: skip
def test_a_templates_built_in_system_message_is_found(tokenizer, before, written):
    tokenizer.chat_template = before + CHATML
    assert written in ChatTemplate(tokenizer).built_in_system()
    assert bool(written) == bool(ChatTemplate(tokenizer).built_in_system())
    assert ChatTemplate(tokenizer, "Be brief.").built_in_system() == ""


@pytest.mark.parametrize(("bos", "template", "noted"), [
    ("<|im_start|>", CHATML, True),
    ("<|endoftext|>", CHATML, False),
    ("<|endoftext|>", LLAMA, False),  # before the whole chat, not before each turn
    ("<|im_start|>", None, False),
    ("<|im_start|>", "{% for", False),
])  # fmt: skip
def test_a_bos_that_marks_turns_is_noted(data, tmp_path, bos, template, noted):
    """As in SmolLM2, whose texts begin with the sign that begins a turn."""
    tokenizer = dressed(small_tokenizer(), template)
    tokenizer.bos_token = bos
    network = build("GPT2LMHeadModel", vocab_size=len(tokenizer), n_layer=1, n_head=2, n_embd=32, n_positions=256)
    folder = run(
        RunRequest("statement", make_local(network, tokenizer), data, PROBES["statement"].options()), tmp_path / "r"
    )
    assert stated(folder.manifest["circumstances"].get("notes", []), "--bos none", bos) == noted


def test_white_space_before_the_assistants_words_is_given(tokenizer):
    tokenizer.chat_template = LLAMA
    template = ChatTemplate(tokenizer)
    assert template.turn("Where?") == "<|endoftext|>[INST] Where? [/INST]"
    assert template.before_reply("Where?") == "<|endoftext|>[INST] Where? [/INST] "


@pytest.mark.parametrize("system", ["", "You know geography."])
def test_the_control_has_the_same_tokens_in_another_order(tokenizer, system):
    """But for the order of what stands around the user's words, all is alike; what is said begins as in a chat."""
    chat, control = ChatTemplate(tokenizer, system), ShuffledChat(tokenizer, system, seed=3)
    asked = "Where is Lima?"
    before, shuffled = chat.before_reply(asked), control.before_reply(asked)
    ids, other = (tokenizer(text, add_special_tokens=False)["input_ids"] for text in (before, shuffled))
    assert ids != other
    assert sorted(ids) == sorted(other)
    assert ids[-1] == other[-1]
    assert shuffled.endswith(f"{asked}\n")
    # Whatever is asked stands behind the same tokens, also in another process; another seed draws another order.
    around = shuffled.removesuffix(f"{asked}\n")
    assert control.turn("And Oslo?") == f"{around}And Oslo?\n"
    assert ShuffledChat(tokenizer, system, seed=3).turn(asked) == shuffled
    assert ShuffledChat(tokenizer, system, seed=4).turn(asked) != shuffled
    assert len({chat.digest, control.digest, ShuffledChat(tokenizer, system, seed=4).digest}) == 3


def test_the_control_leaves_bos_in_front_and_white_space_behind(tokenizer):
    tokenizer.chat_template = LLAMA
    shuffled = ShuffledChat(tokenizer).before_reply("Where?")
    assert shuffled.startswith("<|endoftext|>")
    assert shuffled.endswith(("Where? ", "Where?] "))
    assert sorted(shuffled) == sorted("<|endoftext|>[INST] Where? [/INST] ")


def test_a_template_of_one_token_has_no_control(tokenizer):
    tokenizer.chat_template = "{{ messages[0].content }}!"
    with pytest.raises(BadInput, match="too few tokens"):
        ShuffledChat(tokenizer)


@pytest.mark.parametrize(("template", "system", "said"), [
    (None, "", ["--chat", "tokenizer_config.json"]),
    (LLAMA, "Be brief.", ["--chat", "no system here", "--system"]),
    ("{{ messages[0].nothing.at_all }}", "", ["--chat"]),
    ("{% for", "", ["--chat"]),
    ("{% for m in messages if m.role == 'user' %}{{ m.content }}{% endfor %}", "Be brief.", ["--chat", "--system"]),
    ("<|im_start|>assistant", "", ["--chat", "user"]),
])  # fmt: skip
def test_templates_that_cannot_be_asked_through(template, system, said):
    tokenizer = small_tokenizer()
    tokenizer.chat_template = template
    with pytest.raises(BadInput, match=mentions(*said)) as caught:
        ChatTemplate(tokenizer, system)
    assert len(caught.value.faults) == 1
    assert "\n" not in str(caught.value)


# ------------------------------------------------------------------------------------------------------ the statement


def expected_scores(model, before: str, said: str) -> float:
    """By the plain path, over the concatenated ids."""
    ids = model.tokenizer(before + said, add_special_tokens=False)["input_ids"]
    given = len(model.tokenizer(before, add_special_tokens=False)["input_ids"])
    return float(token_log_probs(model, ids)[given:].sum())


@pytest.mark.parametrize("more", [{}, {"max_rank": 3}, {"max_rank": 4, "prune": False}])
def test_statements_are_scored_as_the_assistants_turn(model, data, tmp_path, more):
    options = PROBES["statement"].options(chat=True, system="Be brief.", perplexity=True, keep_tokens=True, **more)
    folder = run(RunRequest("statement", model, data, options), tmp_path / "r")
    before = ChatTemplate(model.tokenizer, "Be brief.").before_reply("State a fact.")
    assert before == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nState a fact.<|im_end|>\n<|im_start|>assistant\n"
    )
    compared = 0
    for row in rows(folder):
        place = int(row["query_id"][-1])
        said = [
            (f"The capital of {HEADS[place]} is {name}.", f"{name} is in {HEADS[place]}.")[row["template"]]
            for name in NAMES
        ]
        wanted = [expected_scores(model, before, text) for text in said]
        assert row["prompt"].startswith(before)
        assert row["prompt_log_prob"] == pytest.approx(wanted[place], abs=1e-4)
        assert row["prompt_tokens"] == len(model.tokenizer(said[place])["input_ids"])
        if row["gold_scores"]:
            assert row["gold_scores"] == pytest.approx([wanted[place]], abs=1e-4)
            own = row["token_log_probs"][0]
            assert ("".join(own["tokens"]), sum(own["log_probs"])) == (
                said[place],
                pytest.approx(wanted[place], abs=1e-4),
            )
            assert row["scored_tokens"] <= len(model.tokenizer(said[place])["input_ids"]) + 8
            compared += 1
        if row["scores"] is not None:
            assert row["scores"] == pytest.approx(wanted, abs=1e-4)
            assert row["rank"] == sorted(wanted, reverse=True).index(wanted[place]) + 1
    assert compared >= 4


def test_the_mean_is_over_the_statements_own_tokens(model, data, tmp_path):
    """Searched and scored in full alike: the chat's own tokens are in neither."""
    found = []
    for name, more in (("full", {}), ("searched", {"max_rank": 4})):
        options = PROBES["statement"].options(chat=True, reduction=("mean",), templates=(0,), **more)
        found.append(rows(run(RunRequest("statement", model, data, options), tmp_path / name)))
    before = ChatTemplate(model.tokenizer).before_reply("State a fact.")
    for full, searched in zip(*found, strict=True):
        place = int(full["query_id"][-1])
        said = f"The capital of {HEADS[place]} is {NAMES[place]}."
        tokens = len(model.tokenizer(said)["input_ids"])
        wanted = expected_scores(model, before, said) / tokens
        assert full["gold_scores"] == pytest.approx([wanted], abs=1e-5)
        assert searched["gold_scores"] == pytest.approx([wanted], abs=1e-5)
        assert searched["rank"] == full["rank"]
        assert full["scored_tokens"] == searched["scored_tokens"]


def test_plain_wording_stays_the_default(model, data, tmp_path):
    folder = run(RunRequest("statement", model, data, PROBES["statement"].options()), tmp_path / "plain")
    identity = folder.manifest["identity"]
    assert not {"chat", "system", "chat_user"} & identity["options"].keys()
    assert "chat_template" not in identity["resolved"]
    chat = run(RunRequest("statement", model, data, PROBES["statement"].options(chat=True)), tmp_path / "chat")
    assert chat.manifest["identity"]["resolved"]["chat_template"] == ChatTemplate(model.tokenizer).digest
    assert chat.manifest["identity"]["resolved"]["bos_token"] is None
    said = recipe(Rows(chat), "accuracy", "sum/full")
    assert "|chat:True|" in said
    assert f"|chat_template:{ChatTemplate(model.tokenizer).digest}" in said
    assert "chat" not in recipe(Rows(folder), "accuracy", "sum/full")
    with pytest.raises(BadInput, match="chat"):
        run(RunRequest("statement", model, data, PROBES["statement"].options(chat=True)), tmp_path / "plain")


@pytest.mark.parametrize(("more", "said"), [
    ({"system": "x"}, ["--system", "--chat"]),
    ({"shuffle_chat": True}, ["--shuffle-chat", "--chat"]),
    ({"chat": True, "bos": "add"}, ["--bos add", "--chat"]),
])  # fmt: skip
@pytest.mark.parametrize("probe", ["statement", "choice", "generation"])
def test_options_that_do_not_go_together(probe, data, tmp_path, more, said):
    model = ScriptedModel(["a"], {})
    asked = PROBES[probe].options(**more)
    with pytest.raises(BadInput, match=mentions(*said)):
        run(RunRequest(probe, model, data, asked), tmp_path / "r")
    assert not (tmp_path / "r").exists()


def test_masked_models_take_no_turns(data, tmp_path):
    model = ScriptedModel(["a"], {}, masked=True)
    for probe in ("statement", "choice"):
        asked = PROBES[probe].options(chat=True)
        with pytest.raises(BadInput, match=mentions("--chat", "bidirectional")):
            run(RunRequest(probe, model, data, asked), tmp_path / "r")


@pytest.fixture
def today(monkeypatch):
    """Set the day that templates write."""

    def set_day(day: str) -> None:
        class Clock(datetime):
            @classmethod
            def now(cls, tz=None):
                return cls.fromisoformat(day)

        monkeypatch.setattr("transformers.utils.chat_template_utils.datetime", Clock)

    return set_day


@pytest.mark.parametrize("probe", ["statement", "choice", "generation"])
def test_a_run_has_the_chats_of_one_day(probe, model, data, tmp_path, today):
    """Parts of a run agree on one day, and refuse another; a fixed day is every day's."""
    model.tokenizer.chat_template = DATED
    more = {"statement": {"templates": (0,)}, "choice": {"options": 3}, "generation": {"shots": 0, "max_new_tokens": 2}}
    asked = PROBES[probe].options
    parts = [asked(chat=True, part=f"{part}/2", **more[probe]) for part in (1, 2)]
    today("2026-01-01")
    folder = run(RunRequest(probe, model, data, parts[0]), tmp_path / "r")
    identity = folder.manifest["identity"]["resolved"]
    assert "Today: 01 Jan 2026" in identity["chat_frame"]
    run(RunRequest(probe, model, data, parts[1]), tmp_path / "same")
    assert RunFolder.open(tmp_path / "same").manifest["identity"]["resolved"] == identity
    today("2027-09-30")
    with pytest.raises(BadInput, match=mentions("another --out", "chat_frame", "01 Jan 2026", "30 Sep 2027")):
        run(RunRequest(probe, model, data, parts[1]), tmp_path / "r")
    fixed = [one.model_copy(update={"chat_arguments": ("strftime_now=2026-02-03",)}) for one in parts]
    for number, day in enumerate(("2026-01-01", "2027-09-30")):
        today(day)
        run(RunRequest(probe, model, data, fixed[number]), tmp_path / "fixed")
    prompts = [row["prompt"] for row in rows(RunFolder.open(tmp_path / "fixed"))]
    assert len(prompts) >= 4
    assert all("Today: 03 Feb 2026" in prompt for prompt in prompts)


def test_what_is_written_is_named_where_runs_are_compared(model, data, tmp_path, today):
    model.tokenizer.chat_template = DATED
    asked = PROBES["statement"].options(chat=True, templates=(0,))
    runs = []
    for day in ("2026-01-01", "2027-09-30"):
        today(day)
        runs.append(run(RunRequest("statement", model, data, asked), tmp_path / day))
    [pair] = compare(runs, metrics=["accuracy"]).pairs
    [said] = pair.differs
    assert mentioned(said, "what the chat template writes", "Today: 01 Jan 2026", "Today: 30 Sep 2027")
    assert "\n" not in said
    assert any("Today: 01 Jan 2026" in note for note in runs[0].manifest["circumstances"]["notes"])


def test_an_earlier_chat_resumes_with_a_note_and_compares_as_unknown(model, data, tmp_path, caplog):
    """Before what a template writes was recorded, a run held the template's source alone."""
    asked = PROBES["statement"].options(chat=True, templates=(0,))
    folder = run(RunRequest("statement", model, data, asked), tmp_path / "early")
    manifest = json.loads((folder.path / "manifest.json").read_text())
    for name in ("chat_frame", "chat_tokens"):
        del manifest["identity"]["resolved"][name]
    del manifest["digest"]
    (folder.path / "manifest.json").write_text(json.dumps(manifest))
    with caplog.at_level("INFO"):
        again = run(RunRequest("statement", model, data, asked), folder.path)
    assert "what a chat template writes" in caplog.text
    new = run(RunRequest("statement", model, data, asked), tmp_path / "new")
    [pair] = compare([again, new], metrics=["accuracy"]).pairs
    assert [said[:40] for said in pair.differs] == ["what the chat template writes (unknown a"]


# --------------------------------------------------------------------------------------------- choice and generation


def test_options_are_scored_as_the_assistants_turn(model, data, tmp_path):
    options = PROBES["choice"].options(chat=True, score=("letter", "text-sum"), instruction="Choose.")
    asked = ChoiceProbe.prepare_queries(options, data)
    folder = run(RunRequest("choice", model, asked, options), tmp_path / "r")
    template = ChatTemplate(model.tokenizer)
    for row in rows(folder):
        space = asked.candidates[row["query_id"]]
        listed = "\n".join(f"({letter}) {name}" for letter, name in zip("abcd", space.names, strict=True))
        before = row["prompt"].removesuffix("[Y]")
        assert before.endswith(f"{listed}\nChoose.<|im_end|>\n<|im_start|>assistant\n") or listed not in before
        assert before == template.before_reply(before.split("user\n")[1].split("<|im_end|>")[0])
        said = space.names if row["scoring"] == "text-sum" else [f"({letter})" for letter in "abcd"]
        assert row["scores"] == pytest.approx([expected_scores(model, before, one) for one in said], abs=1e-4)


def test_questions_are_the_users_turn(model, data, tmp_path, monkeypatch):
    seen = []
    real = type(model).generate

    def generate(self, prompts, max_new_tokens, stop=(), bos=None):
        seen.append((list(prompts), stop, bos))
        return real(self, prompts, max_new_tokens, stop, bos)

    monkeypatch.setattr(type(model), "generate", generate)
    options = PROBES["generation"].options(chat=True, system="Be brief.", shots=1, max_new_tokens=4)
    folder = run(RunRequest("generation", model, data, options), tmp_path / "r")
    [[prompts, stop, bos]] = seen
    assert (stop, bos) == ((), None)
    template = ChatTemplate(model.tokenizer, "Be brief.")
    users = [prompt.split("user\n")[1].split("<|im_end|>")[0] for prompt in prompts]
    assert all(user.endswith("?\nAnswer with the name only.") for user in users)
    assert all(prompt.count("What is the capital of") == 2 and "%" not in prompt for prompt in prompts)
    last = [prompt.rpartition("user\n")[2].partition("<|im_end|>")[0] for prompt in prompts]
    examples = [
        (user, prompt.split("assistant\n")[1].partition("<|im_end|>")[0])
        for user, prompt in zip(users, prompts, strict=True)
    ]
    assert prompts == [template.turn(user, [example]) for user, example in zip(last, examples, strict=True)]
    assert {answer for _, answer in examples} <= set(NAMES)
    assert sorted(row["prompt"] for row in rows(folder)) == sorted(f"{prompt} [Y]" for prompt in prompts)
    assert folder.manifest["identity"]["resolved"]["chat_template"] == template.digest


@pytest.mark.parametrize(("form", "reply", "cut"), [
    ("none", "<think>a</think>b", Cut("<think>a</think>b")),
    ("think", "b", Cut("b")),
    ("think", "<think>a</think>b", Cut("b", True)),
    ("think", "<think>\na <b\n</think>\n\nb", Cut("\n\nb", True)),
    ("think", "a</think>b", Cut("b", True)),
    ("think", "x<think>a</think>y<think>c</think>z", Cut("xyz", True)),
    ("think", "x<think>a", Cut("x", True, True)),
    ("think", "a</think>b<think>c", Cut("b", True, True)),
    ("[T]...[/T]", "[T]a[/T]b <think>", Cut("b <think>", True)),
])  # fmt: skip
def test_reasoning_is_cut_as_declared(form, reply, cut):
    assert Cutter(form).read(reply) == cut


def test_reasoning_that_the_question_opened():
    assert Cutter("think").read("never ends", "assistant\n<think>\n") == Cut("", True, True)
    assert Cutter("think").read("a</think>b", "assistant\n<think>\n") == Cut("b", True)
    assert Cutter("think").read("Paris", "assistant\n") == Cut("Paris")


@pytest.mark.parametrize("form", ["thinking", "a...", "...b", "", "<think>"])
def test_forms_that_are_none(form):
    with pytest.raises(BadInput, match=mentions("--cut-reasoning")):
        Cutter(form)


def writer(data, text: str, monkeypatch):
    """A model that writes *text*."""
    model = ScriptedModel(["a"], {})
    model.tokenizer.chat_template = CHATML
    monkeypatch.setattr(ScriptedModel, "generate", lambda self, prompts, *_: [Reply(text, 9, None) for _ in prompts])
    return model


@pytest.mark.parametrize(("reply", "form", "said", "counts"), [
    ("<think>Rome%\nor</think>\n\nParis; Lima%\nMore", "think", ["Paris", "Lima"], {"reasoning_cut": 4}),
    ("Paris.", "think", ["Paris."], {}),
    ("<think>Paris", "think", None, {"reasoning_unfinished": 4}),
    ("<think>Rome</think>Paris", "none", ["<think>Rome</think>Paris"], {"reasoning_uncut": 4}),
])  # fmt: skip
def test_written_answers_are_cut_and_counted(data, tmp_path, monkeypatch, reply, form, said, counts):
    model = writer(data, reply, monkeypatch)
    options = PROBES["generation"].options(chat=True, cut_reasoning=form, shots=0, score=("f1",))
    folder = run(RunRequest("generation", model, data, options), tmp_path / "r")
    found = rows(folder)
    assert [row["answers"] for row in found] == [said] * 4
    credit = {("Paris", "Lima"): 2 / 3, ("Paris.",): 1}.get(tuple(said or ()), None if said is None else 0)
    assert found[0]["correct"] == (None if credit is None else pytest.approx(credit))
    if said is None:
        assert correspond({row["unscored"] for row in found}, "--max-new-tokens")
    noted = folder.manifest["circumstances"]
    assert {name: count for name, count in noted.items() if name.startswith("reasoning")} == counts
    noticed = {"reasoning_uncut", "reasoning_unfinished"} & counts.keys()
    assert all(stated(noted["notes"], name) for name in noticed)


# --------------------------------------------------------------------------------------------------- behind a server


def test_generation_behind_a_server(fathom, serve, data, tmp_path):
    said = {"France": "<think>Hm: Lima?</think>Paris%", "Peru": "Lima; Paris\nBye", "Norway": "Bergen"}

    def answer(body):
        text = body["messages"][-1]["content"]
        return next((reply for head, reply in said.items() if head in text), "<think>So")

    server = serve(each=lambda body: completion(answer(body)))
    options = PROBES["generation"].options(
        server=server.url, system="Be brief.", shots=0, cut_reasoning="think", max_new_tokens=40, score=("f1",)
    )
    folder = run(RunRequest("generation", open_model("tiny", options), data, options), tmp_path / "r")
    found = {row["query_id"]: row for row in rows(folder)}
    assert [found[f"P36/{n}"]["answers"] for n in range(3)] == [["Paris"], ["Lima", "Paris"], ["Bergen"]]
    assert [found[f"P36/{n}"]["correct"] for n in range(3)] == pytest.approx([1, 2 / 3, 0])
    assert "did not end" in found["P36/3"]["unscored"]
    identity, noted = folder.manifest["identity"], folder.manifest["circumstances"]
    assert identity["resolved"]["attention"] == "chat"
    assert (noted["reasoning_cut"], noted["reasoning_unfinished"], noted["calls_failed"]) == (1, 1, 0)
    assert noted["journal"]["answers"] == 4


def test_replies_in_sentences_are_read(data, tmp_path, monkeypatch):
    """By default of chats; by f1 they are wrong, which a note says."""
    model = writer(data, "The capital of this country is Paris, of course.", monkeypatch)
    asked = PROBES["generation"].options
    read = run(RunRequest("generation", model, data, asked(chat=True, shots=0)), tmp_path / "contains")
    assert [(row["scoring"], row["correct"], row["answer_ids"]) for row in rows(read)] == [
        ("contains", credit, ["Paris"]) for credit in (1, 0, 0, 0)
    ]
    exact = run(RunRequest("generation", model, data, asked(chat=True, shots=0, score=("f1",))), tmp_path / "f1")
    assert [(row["scoring"], row["correct"]) for row in rows(exact)] == [("f1", 0)] * 4
    noted = exact.manifest["circumstances"]
    assert noted["answers_among_other_words"] == 1
    assert stated(noted["notes"], "--score contains")


def test_a_served_chat_has_examples_as_turns(serve, data, tmp_path):
    server = serve(each=lambda body: completion("Lima"))
    options = PROBES["generation"].options(server=server.url, shots=2, limit=1, system="Be brief.")
    run(RunRequest("generation", open_model("tiny", options), data, options), tmp_path / "r")
    [body] = server.bodies
    roles = [message["role"] for message in body["messages"]]
    assert roles == ["system", "user", "assistant", "user", "assistant", "user"]
    users = [message["content"] for message in body["messages"] if message["role"] == "user"]
    assert all(
        user.startswith("What is the capital of") and user.endswith("\nAnswer with the name only.") for user in users
    )
    pairs = dict(zip(HEADS, NAMES, strict=True))
    for user, said in zip(users, [m["content"] for m in body["messages"] if m["role"] == "assistant"], strict=False):
        assert pairs[user.removeprefix("What is the capital of ").partition("?")[0]] == said


def test_the_control_keeps_the_words_of_all_turns(tokenizer):
    examples = [("Where is Lima?", "Peru"), ("Where is Oslo?", "Norway")]
    chat, shuffled = (kind(tokenizer).turn("Where is Paris?", examples) for kind in (ChatTemplate, ShuffledChat))
    assert sorted(chat.replace("\n", "")) == sorted(shuffled.replace("\n", ""))
    assert "Where is Lima?\nPeru\nWhere is Oslo?\nNorway\nWhere is Paris?" in shuffled


@pytest.mark.parametrize("probe", ["statement", "choice", "generation"])
def test_a_model_is_asked_plainly_in_its_chat_and_in_the_shuffled_one(probe, model, data, tmp_path):
    more = {
        "statement": {},
        "choice": {"options": 3},
        "generation": {"shots": 0, "max_new_tokens": 2, "score": ("contains",)},
    }[probe]
    wordings = {"plain": {}, "chat": {"chat": True}, "shuffled": {"chat": True, "shuffle_chat": True}}
    runs = []
    for name, own in wordings.items():
        options = PROBES[probe].options(**own, **more)
        runs.append(run(RunRequest(probe, model, data, options), tmp_path / name))
    found = compare(runs, metrics=["accuracy"])
    assert [line.outcome.wording for line in found.runs] == ["plain", "chat", "shuffled chat"]
    assert [pair.facts for pair in found.pairs] == [4] * 3
    [claim] = found.controlled
    assert [one.name for one in claim.claim.contrasts] == ["chat − plain", "chat − its shuffled tokens"]
    chat, shuffled = ([row["prompt"] for row in one.predictions().to_pylist()] for one in runs[1:])
    assert all(one != other and len(one) == len(other) for one, other in zip(chat, shuffled, strict=True))
    assert len({str(one.manifest["identity"]["resolved"].get("chat_template")) for one in runs}) == 3
