"""How Relay's agents are made: their tokenizer, what they are taught, the training loop and their examination."""
