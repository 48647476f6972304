//! `tables`: embedding tables with their ranks, and what other placements would take.

use std::io::{self, Write};

use color_eyre::eyre::{Result, eyre};
use serde::Serialize;

use crate::cli::{Iteration, TablesArgs};
use crate::session::{Loaded, Pick, Sharding, ShardingPlan, StepOutcome, judge};
use retime_core::cost::Reuse;
use retime_core::scenario::StepError;
use retime_core::scenario::tables::Sharder;
use retime_core::scenario::tables::{Table as Embedding, TablePlacement};
use retime_core::units::{Bytes, DurNs};

use super::opened::Opened;
use super::{Misuse, input, output};

#[derive(Debug, Serialize)]
struct Answer {
    tables: Vec<Row>,
    /// What the edits of the command line did.
    steps: Vec<StepOutcome>,
    plans: Vec<ShardingPlan>,
}

#[derive(Debug, Serialize)]
struct Row {
    id: String,
    rows: Option<u64>,
    dim: Option<u64>,
    pooling: Option<f64>,
    rank: u32,
    bytes: Option<Bytes>,
    forward_ns: DurNs,
    backward_ns: DurNs,
    /// Whether the figures are the mean over the tables of one operator.
    mean: bool,
    /// Whether every rank holds a copy.
    replicated: bool,
    /// Where an edit put it, e.g. `r0,r2(col)`; `None` where it stays.
    placement: Option<String>,
    /// Which of its rows a batch looks up: even draws unless it is told.
    reuse: Reuse,
}

/// Runs the command.
///
/// # Errors
/// Nothing could be opened, an edit or the sharder cannot be read.
pub fn run(args: &TablesArgs, iteration: Iteration) -> Result<()> {
    let wanted = args.sharder.as_deref().map(wanted).transpose()?;
    let size = |text: &String| text.parse::<Bytes>().map_err(|why| Misuse(format!("--memory-limit: {why}")));
    let limit = args.memory_limit.as_ref().map(size).transpose()?;
    let mut common = args.common.clone();
    common.input.all_ranks = true;
    let Opened { loaded, outcome, .. } = Opened::of(&common, iteration)?;
    let sharding = Sharding::new(&loaded, &outcome.scenario).within(limit);
    let placements = outcome.resolved.placements.as_deref().unwrap_or_default();
    let row = |(index, table): (usize, &Embedding)| {
        let moved = placements.get(index).filter(|placement| **placement != TablePlacement::whole(table.rank));
        Row {
            placement: moved.map(|placement| sharding.by_numbers(placement).to_string()),
            ..row(&loaded, index, table)
        }
    };
    let tables = sharding.tables().tables.iter().enumerate().map(row).collect();
    let plans = wanted.map(|requested| plans(&loaded, &sharding, &requested)).transpose()?.unwrap_or_default();
    let json = input::Envelope::new(&loaded, Answer { tables, steps: outcome.steps.clone(), plans });
    let answer = &json.answer;
    output::write(&args.common.input.output, &json, |out| describe(answer, out), || csv(answer))?;
    Ok(())
}

/// Sharders to try, and whether to search.
struct Requested {
    sharders: Vec<Sharder>,
    search: bool,
}

fn wanted(name: &str) -> Result<Requested> {
    match name {
        "all" => Ok(Requested { sharders: Sharder::ALL.to_vec(), search: true }),
        "best" => Ok(Requested { sharders: Vec::new(), search: true }),
        _ => {
            let names = Sharder::ALL.map(Sharder::name);
            let unknown = || {
                let known = names.iter().map(String::as_str).chain(["best", "all"]);
                eyre!("--sharder: {}", StepError::unknown(1, "sharder", name, known).message)
            };
            let sharder = Sharder::parse(name).ok_or_else(unknown)?;
            Ok(Requested { sharders: vec![sharder], search: false })
        }
    }
}

fn plans(loaded: &Loaded, sharding: &Sharding<'_>, requested: &Requested) -> Result<Vec<ShardingPlan>> {
    if loaded.graph.ranks.len() < 2 {
        return Err(eyre!("{}: one rank is loaded, there is nowhere to move tables to", loaded.title));
    }
    if sharding.tables().sharded().is_empty() {
        return Err(eyre!("{}: no embedding table that can move", loaded.title));
    }
    let mut plans = vec![sharding.traced()];
    plans.extend(requested.sharders.iter().map(|&sharder| sharding.by(sharder)));
    if requested.search {
        plans.push(sharding.best());
    }
    judge(&mut plans);
    Ok(plans)
}

fn row(loaded: &Loaded, index: usize, table: &Embedding) -> Row {
    Row {
        id: format!("t{index}"),
        rows: table.rows,
        dim: table.dim,
        pooling: table.pooling,
        rank: loaded.graph.ranks.get(table.rank).map_or(0, |part| part.rank.0),
        bytes: table.bytes,
        forward_ns: table.forward,
        backward_ns: table.backward,
        mean: table.is_mean,
        replicated: table.replicated,
        placement: None,
        reuse: table.reuse.clone(),
    }
}

fn shown<T: ToString>(value: Option<T>) -> String {
    value.map_or("–".to_owned(), |value| value.to_string())
}

fn describe(answer: &Answer, out: &mut dyn Write) -> io::Result<()> {
    if answer.tables.is_empty() {
        return writeln!(out, "no embedding table found");
    }
    let header = &["table", "rank", "rows", "dim", "pooling", "look-ups", "bytes", "forward", "backward", "placed"];
    let mut table = output::Table::new(header);
    for row in &answer.tables {
        let placed = match &row.placement {
            Some(placement) => format!("moved to {placement}"),
            None if row.replicated => "on every rank".to_owned(),
            None => "on one rank".to_owned(),
        };
        table.row([
            row.id.clone(),
            row.rank.to_string(),
            shown(row.rows),
            shown(row.dim),
            shown(row.pooling.map(|pooling| format!("{pooling:.1}"))),
            row.reuse.shown(),
            shown(row.bytes),
            row.forward_ns.to_string(),
            row.backward_ns.to_string(),
            placed,
        ]);
    }
    output::text(&table, out)?;
    if answer.steps.iter().any(|step| step.enabled) {
        writeln!(out, "pooling, forward and backward are as traced: `ops` has what look-ups take with the edits")?;
    }
    if answer.tables.iter().any(|row| row.mean) {
        writeln!(out, "of tables that share an operator only sums are recorded: each is shown as their mean")?;
    }
    if answer.tables.iter().any(|row| row.reuse == Reuse::Uniform) {
        writeln!(
            out,
            "which rows a batch looks up is not recorded: even draws are taken unless `tables.toml` gives `indices`, `histogram`, `unique` or `zipf`"
        )?;
    }
    for (number, step) in answer.steps.iter().enumerate() {
        writeln!(out, "{}. {}: {}", number + 1, step.transform, step.summary)?;
        for told in &step.effects {
            writeln!(out, "     {}", told.line())?;
        }
    }
    if answer.plans.is_empty() {
        return Ok(());
    }
    let mut table = output::Table::new(&["plan", "simulated", "choice", "most look-ups of a rank", "edit"]);
    for plan in &answer.plans {
        let edit = shortened(&plan.step);
        let pick = plan.pick.map_or("not possible", Pick::words).to_owned();
        let cells = [shown(plan.steady_ns), pick, shown(plan.max_rank_ns), edit];
        table.row([plan.sharder.clone()].into_iter().chain(cells));
    }
    writeln!(out)?;
    output::text(&table, out)?;
    if answer.plans.iter().any(|plan| plan.pick == Some(Pick::Equal)) {
        writeln!(
            out,
            "whichever it is, the iteration waits for something else: plans differ in the most look-ups of a rank"
        )?;
    }
    for plan in &answer.plans {
        for what in &plan.unhandled {
            writeln!(out, "{}: not handled: {what}", plan.sharder)?;
        }
    }
    Ok(())
}

/// The edit of a plan; of many moves the first.
fn shortened(step: &str) -> String {
    const SHOWN: usize = 6;
    let words: Vec<&str> = step.split(' ').collect();
    match words.len() {
        _ if step.is_empty() => "nothing moves".to_owned(),
        count if count <= SHOWN + 1 => step.to_owned(),
        count => format!("{} … {} tables move (--json has all)", words[..=SHOWN].join(" "), count - 1),
    }
}

fn csv(answer: &Answer) -> output::Table {
    let plain = |value: Option<u64>| value.map(|value| value.to_string()).unwrap_or_default();
    if !answer.plans.is_empty() {
        let mut table = output::Table::new(&["sharder", "simulated_ns", "max_rank_ns", "step"]);
        for plan in &answer.plans {
            let time = |time: Option<DurNs>| plain(time.map(|time| time.0.unsigned_abs()));
            let cells = [time(plan.simulated_ns), time(plan.max_rank_ns), plan.step.clone()];
            table.row([plan.sharder.clone()].into_iter().chain(cells));
        }
        return table;
    }
    let header = &["id", "rank", "rows", "dim", "pooling", "bytes", "forward_ns", "backward_ns", "replicated"];
    let mut table = output::Table::new(header);
    for row in &answer.tables {
        table.row([
            row.id.clone(),
            row.rank.to_string(),
            plain(row.rows),
            plain(row.dim),
            row.pooling.map(|pooling| pooling.to_string()).unwrap_or_default(),
            plain(row.bytes.map(|bytes| bytes.0)),
            row.forward_ns.0.to_string(),
            row.backward_ns.0.to_string(),
            row.replicated.to_string(),
        ]);
    }
    table
}
