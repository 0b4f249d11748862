"""Judging pairs with people: pool, tasks, answers, quality, merge, bias, preference, several turns."""
