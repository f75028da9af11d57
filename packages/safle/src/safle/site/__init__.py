"""At a client's house: count and judge, rehearse, policy, release sheet, log."""
