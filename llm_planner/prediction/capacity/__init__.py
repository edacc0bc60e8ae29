"""How many more robots does one server hold? In closed form, from tables of what robots ask for."""
