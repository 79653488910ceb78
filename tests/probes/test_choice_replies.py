"""Replies of chat models, and the option that a reader would take from each."""

from __future__ import annotations

from string import ascii_uppercase

import pytest

from fathom.data.prompts.choices import AMBIGUOUS, UNPARSED
from fathom.probes.choice_replies import chosen, read_reply
from tests.base.test_reading import within

CITIES = ("Paris", "Lyon", "Marseille", "Nice")
OPTIONS = "(a) Paris, (b) Lyon, (c) Marseille, (d) Nice"


@pytest.mark.parametrize(
    ("reply", "letter"),
    [
        # Only an answer, with markup.
        ("$B$", "B"), ("ANSWER: $B$", "B"), ("ANSWER: **B**", "B"), ("ANSWER: (B)", "B"), ("ANSWER: [B]", "B"),
        ("[B]", "B"), ("[[B]]", "B"), ("（B）", "B"), ("【B】", "B"), ("`B`", "B"), (r"\(B\)", "B"), ("*C*.", "C"),
        ("<answer>B</answer>", "B"), ("<answer>\nLyon\n</answer>", "B"), ('{"answer": "B"}', "B"),
        ('{"reasoning": "A is a capital.", "answer": "B"}', "B"), ("{'choice': 'Lyon'}", "B"),
        ('```json\n{"answer": "B"}\n```', "B"), ("答案：B", "B"), ("正确答案是B。", "B"), ("Réponse : B", "B"),
        ("Answer - B", "B"), ("Answer = B", "B"), ("### Answer\nB", "B"), ("Answer:\n\nB", "B"), ("**Answer:** B", "B"),
        ("**Answer**: **B**", "B"), ("The correct answer is:\n\n**B) Lyon**", "B"), ("B, Lyon", "B"), ("B - Lyon", "B"),
        ("Final answer: **B) Lyon**", "B"), (r"\[ \boxed{\text{B}} \]", "B"), (r"\boxed{B. Lyon}", "B"),
        # An answer in a sentence.
        ("The answer is C because I computed the integral.", "C"), ("The answer is B, Lyon.", "B"),
        ("The answer is B. Note that A is a common distractor.", "B"), ("The final answer is (B).", "B"),
        ("Final Answer: The final answer is D", "D"), ("I would choose option C", "C"), ("I'd go with (b), Lyon.", "B"),
        ("So the answer is: B.\n\nI hope this helps!", "B"), ("The answer is Lyon, which lies on the Rhone.", "B"),
        ("The answer is B (Lyon).", "B"), ("The answer is most likely B.", "B"), ("The answer is B, not A.", "B"),
        ("The answer is (b), not (a).", "B"), ("(B) is the correct answer.", "B"), ("So, option B is correct.", "B"),
        ("A is wrong, B is correct.", "B"), ("A. Paris is wrong. B. Lyon is right.", "B"),
        ("The answer to this question is B.", "B"),
        ("It is not (b). Answer: (c)", "C"), ("I'm not sure, but the answer is B.", "B"),
        # Reasoning first, and corrected answers: the last one counts.
        ("Let me think step by step.\nLyon lies on the Rhone.\n\nANSWER: B", "B"),
        ("Let me think: the answer is a city in the south.\nANSWER: C", "C"), ("<think>\nmaybe A</think>\nB", "B"),
        ("<think>The answer is A.</think>The answer is B.", "B"),
        ("Answer: A\nAfter checking I must correct this.\nAnswer: B", "B"), ("Answer: A\nAnswer: B", "B"),
        ("The answer is A. Wait, no. The answer is B.", "B"), ("(a) Paris.\nFinal answer: b", "B"),
        ("If the answer is A, it lies on the Seine. So the answer is B.", "B"),
        ("The answer is B. Some would say that the answer is A.", "B"),
        ("Answer: A\n\nActually, it is B.", "B"), ("Answer: A\n\nHmm, it should be (b).", "B"),
        ("Answer: A\n\nActually, it's Lyon.", "B"), ("Answer: A\n\nCorrection: B", "B"), ("Answer: A. No, B.", "B"),
        ("The answer is A... no, B.", "B"), ("The answer is A... no, wait, B.", "B"),
        # Remarks after the answer that correct nothing.
        ("Answer: B\n\nIt is a nice town.", "B"), ("Answer: B\n\nActually, A is the capital.", "B"),
        ("Answer: B. It is not A.", "B"), ("Answer: B. It is no port.", "B"), ("Answer: B. No other is so.", "B"),
        # Pronouns, denied options and lists of one item.
        ("It's (b).", "B"), ("It's B", "B"), ("I think it is B.", "B"), ("It is B, not A.", "B"), ("It's Lyon.", "B"),
        ("The answer is not B but C.", "C"), ("The answer isn't B, but (c).", "C"), ("It is not A but B.", "B"),
        ("- B", "B"), ("> B", "B"), ("- (b) Lyon", "B"), ('{"answer": ["B"]}', "B"), ('{"answer": [\n"Lyon"\n]}', "B"),
        # Reasons that mention more options.
        ("(B) Lyon\n\nExplanation: (A) Paris is the capital.", "B"), ("B\nReason: (A) Paris is the capital.", "B"),
        ("The correct option is (B), since (A) is the capital and (C) is a port.", "B"),
        # Languages.
        ("La réponse est B", "B"), ("La bonne réponse est (B) Lyon.", "B"), ("Die Antwort ist B.", "B"),
        ("Die richtige Antwort ist B", "B"), ("La respuesta correcta es B", "B"), ("La risposta corretta è B.", "B"),
        ("A resposta correta é B", "B"), ("答えはBです", "B"), ("答えはBです。", "B"),
        ("选B", "B"), ("我选择 B。", "B"),
        # The options repeated before the answer, and a further question after it.
        (f"Which city? {OPTIONS}\nAnswer: (b)", "B"), ("(a) Paris\n(b) Lyon\n(c) Marseille\n(d) Nice\nAnswer: B", "B"),
        ("Answer: B\n\nQuestion: Which river? (a) Rhone, (b) Seine\nAnswer: A", "B"),
    ],
)  # fmt: skip
def test_an_option_is_read(reply, letter):
    assert read_reply(reply, CITIES).place == ascii_uppercase.index(letter)


@pytest.mark.parametrize(
    "reply",
    [
        "None of the above", "ANSWER: None of the above", "ANSWER: Don't know", "ANSWER: I don't know", "Don't know",
        "A nice town", "a nice town", "It is a nice town.", "The answer is a city", "The answer is a nice town.",
        "A is wrong, B is wrong", "A is wrong", "(a) Paris is wrong.", "A. Paris is not on the Rhone.",
        "The option: (a) Paris is incorrect", "Wrong answer: A", "The wrong answer is A.", "Incorrect option: (a)",
        "The second best answer is B.", "The answer is not B.", "The answer isn't B.", "It is not (b).",
        "I would choose not to answer", "I don't think the answer is A.", "If the answer is A, it lies on the Seine.",
        "Could it be that the answer is A?", "Answer: B? None of these. The answer is none of them.",
        "Answer: B\nOn reflection, the answer is not B.", "What is the best answer?", "Answer", "Answer: E",
        "<think>The answer is A", '{"answer": null}', '{"answer": ""}', "$5", "[x]", "B-side", "I like Lyon.",
        "It's a nice town.", "It is a (very) nice town.", "It is a.", "It isn't B.", "I don't think it is B.",
        "Is it B?",
        "If it is B, it lies on the Rhone.", "The answer is not A, but B and C are wrong.", "> None of the above",
        "Answer: A\n\nActually, none of them.", "- 5", "Die Antwort ist nicht B.", "La réponse n'est pas B.",
        "La respuesta no es B.", "Falsche Antwort: A", "答えはBではない", "答えはBですか", "答案不是B", "不选B",
        "选A或B",
        "Paris, of course not", "Reply with the letter of one option and nothing else.", "Which option is correct?",
    ],
)  # fmt: skip
def test_no_option_is_read(reply):
    assert read_reply(reply, CITIES) == (None, "", UNPARSED)


@pytest.mark.parametrize(
    "reply",
    [
        OPTIONS, OPTIONS.replace(", ", "\n"), "A. Paris\nB. Lyon\nC. Marseille\nD. Nice",
        "a) Paris b) Lyon c) Marseille d) Nice", "A: Paris, B: Lyon, C: Marseille, D: Nice", "Paris\nLyon",
        f"Answer: {OPTIONS}", "Answer: A, B or C", "The answer is A or B.", "The answer is A/B.", "[A] or [B]",
        "The answer is Paris or Lyon.", '{"answer": "A or B"}', "A is correct, B is correct.", "The answer is A, Lyon.",
        "Answer: A. Lyon", "The answer is A (Lyon).", "[[A]] or [[B]]", r"\boxed{A} The answer is B",
        "The answer is A or the answer is B.", "- A\n- B\n- C\n- D", "- Paris\n- Lyon", '{"answer": ["A", "B"]}',
        "It is A or B.", "The answer is A or B because both are cities.", "The answer is A, as well as (b).",
        "(A) Paris\nReason: the Seine\n(B) Lyon\nReason: the Rhone", "(A) Paris\nReason: the Rhone, so (B) Lyon",
    ],
)  # fmt: skip
def test_several_options_are_claimed(reply):
    assert read_reply(reply, CITIES) == (None, "", AMBIGUOUS)


@pytest.mark.parametrize(
    ("reply", "place"),
    [
        ("The answer is Paris, France.", 1), ("The answer is Paris, France, because", 1), ("The answer is Paris.", 0),
        ("The answer is Antigua and Barbuda.", 2), ("snake_case_name", 3), ("Answer: None of these", 4), ("$5", 5),
    ],
)  # fmt: skip
def test_names_that_look_like_sentences_or_markup(reply, place):
    names = ("Paris", "Paris, France", "Antigua and Barbuda", "snake_case_name", "None of these", "$5")
    assert read_reply(reply, names).place == place


def test_a_plain_reply_may_have_markup():
    assert [chosen(reply, CITIES) for reply in ("$B$", "[B]", "（B）", "<answer>B</answer>", "答案：B")] == [1] * 5
    assert chosen("The answer is C because it lies by the sea.", CITIES) is None


@pytest.mark.parametrize(
    "part", ["*a ", "answer: ", "\n", "a) city ", "<answer>", ", ", "[[", "no, ", "it is e ", "\n- ", "\nReason:"]
)
def test_a_reply_that_repeats_itself_is_read_in_time(part):
    with within(20):
        assert read_reply(part * (20_000 // len(part)), CITIES).reason == UNPARSED
