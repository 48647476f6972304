//! All that accounts of an iteration are made from.

use crate::graph::{ExecutionGraph, TimedGraph};
use crate::scenario::KernelWork;
use crate::sim::Schedule;

use super::lanes::Times;

/// A graph as it was simulated, and the times that are looked at.
#[derive(Clone, Copy, Debug)]
pub struct Sources<'a> {
    /// The graph.
    pub graph: &'a ExecutionGraph,
    /// What its tasks have to do: their families are from there.
    pub works: &'a KernelWork,
    /// The arrays that were simulated.
    pub timed: &'a TimedGraph,
    /// What the simulation found: it says what decided what.
    pub schedule: &'a Schedule,
    /// Which times are looked at.
    pub times: Times<'a>,
}
