"""A learner of the field beside ours: maskable PPO of Stable-Baselines3, on RESCO's maps."""
