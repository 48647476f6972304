//! Placements as scenarios: where the steps of one put each table, and the scenario that puts a table elsewhere.
//!
//! What the steps ask for; whether it can be carried out is for their application to say.

use crate::graph::RankPart;
use crate::scenario::grammar::Value;
use crate::scenario::step::{Scenario, Step};
use crate::scenario::tables::{Plan, TablePlacement, Tables};

use super::transforms::RESHARD;

/// The step that carries out a plan.
pub fn step_of(plan: Plan) -> Option<Step> {
    Step::new(RESHARD.0, RESHARD.1, vec![Some(Value::Plan(plan))])
}

/// The plan of a step that moves tables.
fn plan_of(step: &Step) -> Option<&Plan> {
    if let Some(Value::Plan(plan)) = step.value(0) { Some(plan) } else { None }
}

/// The single moves of a step, by positions in `ranks`; none where it is no such step, or where a rank is not there.
pub fn moves_of(step: &Step, ranks: &[RankPart]) -> Vec<(usize, TablePlacement)> {
    let Some(Plan::Moves(moves)) = plan_of(step) else { return Vec::new() };
    moves.iter().filter_map(|(table, placement)| Some((*table, by_positions(placement, ranks)?))).collect()
}

/// `scenario` without any step that moves tables.
pub fn without_plans(scenario: &Scenario) -> Scenario {
    let mut scenario = scenario.clone();
    scenario.steps.retain(|step| plan_of(step).is_none());
    scenario
}

/// Where the enabled steps of `scenario` put each table that can move, by positions in `ranks`.
pub fn placements_of(scenario: &Scenario, tables: &Tables, ranks: &[RankPart]) -> Vec<TablePlacement> {
    let mut placements = tables.placements();
    for plan in scenario.steps.iter().filter(|step| step.enabled).filter_map(plan_of) {
        match plan {
            Plan::By(sharder) => {
                let placement = sharder.place(tables.sharded(), &tables.able());
                placements = placement
                    .map_or(placements, |placement| placement.into_iter().map(TablePlacement::whole).collect());
            }
            Plan::Moves(moves) => {
                for (table, placement) in moves {
                    if let (Some(slot), Some(placement)) = (placements.get_mut(*table), by_positions(placement, ranks))
                    {
                        *slot = placement;
                    }
                }
            }
        }
    }
    placements
}

/// `scenario` with `table` on `placement`, which tells ranks by position. Moves that a last step made already go into the same
/// step; a table that is back where the steps before left it is no move, and a step without moves is none.
pub fn with_placement(
    scenario: &Scenario,
    tables: &Tables,
    ranks: &[RankPart],
    table: usize,
    placement: &TablePlacement,
) -> Scenario {
    let mut scenario = scenario.clone();
    let last = scenario.steps.last().filter(|step| step.enabled).and_then(plan_of).cloned();
    let mut moves = match last {
        Some(Plan::Moves(moves)) => {
            scenario.steps.pop();
            moves
        }
        _ => Vec::new(),
    };
    moves.retain(|(moved, _)| *moved != table);
    if placements_of(&scenario, tables, ranks).get(table).is_some_and(|before| before != placement) {
        moves.push((table, by_numbers(placement, ranks)));
        moves.sort_by_key(|(table, _)| *table);
    }
    if !moves.is_empty() {
        scenario.steps.extend(step_of(Plan::Moves(moves)));
    }
    scenario
}

fn by_numbers(placement: &TablePlacement, ranks: &[RankPart]) -> TablePlacement {
    let numbers = placement.ranks.iter().filter_map(|&rank| ranks.get(rank)).map(|part| part.rank.0 as usize);
    TablePlacement { ranks: numbers.collect(), ..placement.clone() }
}

fn by_positions(placement: &TablePlacement, ranks: &[RankPart]) -> Option<TablePlacement> {
    let position = |&number: &usize| ranks.iter().position(|part| part.rank.0 as usize == number);
    Some(TablePlacement { ranks: placement.ranks.iter().map(position).collect::<Option<_>>()?, ..placement.clone() })
}
