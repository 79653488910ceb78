"""Studies of reasoning: entailment by six rules, chains of several steps, and multiple choice."""
