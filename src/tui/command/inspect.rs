//! Commands that look into what is shown: why a number is what it is, and which of the recorded iterations is modelled.

use std::sync::Arc;

use super::Pane::Everywhere;
use super::{Argument, Command, CommandResult, Kind, named};
use crate::session::Algorithm;
use crate::tui::app::App;
use crate::tui::effect::Effect;
use crate::tui::load::Second;
use crate::tui::message::Message;
use crate::tui::overlay::{Overlay, Picker};
use crate::tui::runner::Request;
use retime_core::graph::IterationChoice;
use retime_core::graph::iteration::steps;

/// Those that change what steps come to.
pub(super) const LASTING: [&str; 5] = ["as", "iteration", "learn", "capture", "all-ranks"];

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "why",
        aliases: &["explain"],
        argument: Argument::None,
        help: "why this number: measured or which model, its inputs, its error",
        keys: &[(Everywhere, "W")],
        run: |app, _| {
            app.workspace().ok_or("no trace is open yet")?;
            app.overlay = Some(Overlay::Why { scroll: 0 });
            Ok(Vec::new())
        },
    },
    Command {
        name: "as",
        aliases: &[],
        argument: Argument::Optional(Kind::Text, "lin2022 | lin2024 | replay"),
        help: "what a paper's algorithm says beside our own replay; replay ends it",
        keys: &[],
        run: read_as,
    },
    Command {
        name: "iteration",
        aliases: &["iter"],
        argument: Argument::Optional(Kind::Text, "INDEX"),
        help: "choose which recorded iteration is modelled, by its index from 0",
        keys: &[(Everywhere, "I")],
        run: iteration,
    },
    Command {
        name: "learn",
        aliases: &[],
        argument: Argument::Optional(Kind::Text, "TRACE"),
        help: "let resize-batch learn from a trace at another batch size",
        keys: &[],
        run: |app, path| join(app, path, Second::OtherBatch),
    },
    Command {
        name: "capture",
        aliases: &[],
        argument: Argument::Optional(Kind::Text, "TRACE"),
        help: "give kernels of graphs the operators of the run that captured them",
        keys: &[],
        run: |app, path| join(app, path, Second::Capture),
    },
    Command {
        name: "all-ranks",
        aliases: &["unfold"],
        argument: Argument::None,
        help: "simulate every rank on its own, also those that did the same",
        keys: &[],
        run: all_ranks,
    },
];

/// Shows what the algorithm of a paper says beside our own replay, or our own alone; without a name the next in turn.
fn read_as(app: &mut App, name: &str) -> CommandResult {
    let known = Algorithm::ALL.map(|algorithm| (algorithm.key(), Some(algorithm)));
    let known = [known.as_slice(), &[("replay", None)]].concat();
    let next = match app.algorithm {
        None => Some(Algorithm::ALL[0]),
        Some(_) => None,
    };
    app.algorithm = named(name, &known)?.unwrap_or(next);
    app.say(Message::note(match app.algorithm {
        Some(algorithm) => format!(
            "the header tells the iteration by Algorithm 1 of {}; what is drawn and listed is our own replay; :as replay ends it",
            algorithm.name()
        ),
        None => "the header tells our own replay".to_owned(),
    }));
    Ok(Vec::new())
}

fn join(app: &mut App, path: &str, second: Second) -> CommandResult {
    let work = app.workspace().ok_or("no trace is open yet")?;
    if path.is_empty() {
        return Err(match second {
            Second::OtherBatch => "name a trace of the same model at another batch size".into(),
            Second::Capture => "name a trace of the run that captured the graphs".into(),
        });
    }
    let (loaded, path) = (Arc::clone(&work.loaded), super::files::readable(path)?);
    let effect = Effect::Ask(Request::Join { work: work.number, loaded, path, second });
    app.busy += 1;
    app.say(Message::note("opening the second trace…"));
    Ok(vec![effect])
}

fn all_ranks(app: &mut App, _: &str) -> CommandResult {
    let work = app.workspace().ok_or("no trace is open yet")?;
    if !work.loaded.folding.folds() {
        return Err("every rank is simulated on its own already".into());
    }
    let effect = work.reopening(None);
    app.say(Message::note("building the graph of all ranks…"));
    Ok(vec![effect])
}

fn iteration(app: &mut App, number: &str) -> CommandResult {
    let work = app.workspace().ok_or("no trace is open yet")?;
    if number.is_empty() {
        let picker = Picker::iterations(work).ok_or("no steps were recorded: the whole trace is one iteration")?;
        app.overlay = Some(Overlay::Picker(picker));
        return Ok(Vec::new());
    }
    let count = work.loaded.traces().next().map_or(0, |trace| steps(trace).len());
    let wanted = number.parse::<usize>().ok().filter(|index| *index < count);
    let index = wanted.ok_or_else(|| format!("no iteration {number}: {}", among(count)))?;
    let scenario = Some(Arc::clone(work.history.current()));
    let effect = work.reopening_at(IterationChoice::Index(index), scenario);
    app.say(Message::note("building the graph of that iteration…"));
    Ok(vec![effect])
}

/// Which indices of iterations there are.
fn among(count: usize) -> String {
    match count {
        0 => "none was recorded".to_owned(),
        1 => "0 is the only one".to_owned(),
        _ => format!("0 to {}", count - 1),
    }
}
