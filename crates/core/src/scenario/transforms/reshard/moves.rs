//! Placements as scenarios: where the steps of one put each table, and the scenario that puts a table elsewhere.
//!
//! What the steps ask for; whether it can be carried out is for their application to say.

use std::sync::Arc;

use crate::graph::RankPart;
use crate::scenario::step::{Scenario, Step};
use crate::scenario::tables::{Seat, Tables};
use crate::scenario::text::Words;
use crate::scenario::transform::Transform;

use super::{Plan, Reshard, SPEC};

/// The plan of a step that moves tables.
fn plan_of(step: &Step) -> Option<Plan> {
    let line = step.transform.line();
    let plan = line.strip_prefix(SPEC.name).filter(|_| step.transform.name() == SPEC.name)?;
    Plan::parse(&mut Words::new(plan)).ok()
}

/// The single moves of a step, by positions in `ranks`; none where it is no such step, or where a rank is not there.
pub fn moves_of(step: &Step, ranks: &[RankPart]) -> Vec<(usize, Seat)> {
    let Some(Plan::Moves(moves)) = plan_of(step) else { return Vec::new() };
    moves.iter().filter_map(|(table, seat)| Some((*table, by_positions(seat, ranks)?))).collect()
}

/// `scenario` without any step that moves tables.
pub fn without_plans(scenario: &Scenario) -> Scenario {
    let mut scenario = scenario.clone();
    scenario.steps.retain(|step| step.transform.name() != SPEC.name);
    scenario
}

/// Where the enabled steps of `scenario` put each table that can move, by positions in `ranks`.
pub fn seats_of(scenario: &Scenario, tables: &Tables, ranks: &[RankPart]) -> Vec<Seat> {
    let mut seats = tables.seats();
    for plan in scenario.steps.iter().filter(|step| step.enabled).filter_map(plan_of) {
        match plan {
            Plan::By(sharder) => {
                let placement = sharder.place(tables.sharded(), &tables.able());
                seats = placement.map_or(seats, |placement| placement.into_iter().map(Seat::whole).collect());
            }
            Plan::Moves(moves) => {
                for (table, seat) in moves {
                    if let (Some(slot), Some(seat)) = (seats.get_mut(table), by_positions(&seat, ranks)) {
                        *slot = seat;
                    }
                }
            }
        }
    }
    seats
}

/// `scenario` with `table` on `seat`, which tells ranks by position. Moves that a last step made already go into the same
/// step; a table that is back where the steps before left it is no move, and a step without moves is none.
pub fn with_seat(scenario: &Scenario, tables: &Tables, ranks: &[RankPart], table: usize, seat: &Seat) -> Scenario {
    let mut scenario = scenario.clone();
    let last = scenario.steps.last().filter(|step| step.enabled).and_then(plan_of);
    let mut moves = match last {
        Some(Plan::Moves(moves)) => {
            scenario.steps.pop();
            moves
        }
        _ => Vec::new(),
    };
    moves.retain(|(moved, _)| *moved != table);
    if seats_of(&scenario, tables, ranks).get(table).is_some_and(|before| before != seat) {
        moves.push((table, by_numbers(seat, ranks)));
        moves.sort_by_key(|(table, _)| *table);
    }
    if !moves.is_empty() {
        let transform: Arc<dyn Transform> = Arc::new(Reshard { plan: Plan::Moves(moves) });
        scenario.steps.push(Step { transform, enabled: true });
    }
    scenario
}

fn by_numbers(seat: &Seat, ranks: &[RankPart]) -> Seat {
    let numbers = seat.ranks.iter().filter_map(|&rank| ranks.get(rank)).map(|part| part.rank.0 as usize);
    Seat { ranks: numbers.collect(), ..seat.clone() }
}

fn by_positions(seat: &Seat, ranks: &[RankPart]) -> Option<Seat> {
    let position = |&number: &usize| ranks.iter().position(|part| part.rank.0 as usize == number);
    Some(Seat { ranks: seat.ranks.iter().map(position).collect::<Option<_>>()?, ..seat.clone() })
}
