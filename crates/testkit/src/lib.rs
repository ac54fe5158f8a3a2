//! Crash injection, simulation and scenarios for the tests of Tidegate.
