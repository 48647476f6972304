//! The second line where a paper's algorithm is switched on: its figures under its name, and our own replay beside them. What it says
//! of the scenario in force is asked for as long as it is switched on.

use crate::session::{Algorithm, Published, PublishedChange};
use crate::tui::app::App;
use crate::tui::effect::Effect;
use crate::tui::runner::Analysis;
use crate::tui::theme::Role;
use crate::tui::workspace::Workspace;

use super::{Pieces, Words, change, iteration, signed_percent};

/// What was asked for last, and what has come in.
#[derive(Debug, Default)]
struct Shown {
    asked: Option<(Algorithm, u64)>,
    change: Option<PublishedChange>,
}

/// Asks for what the algorithm that is switched on says of the result shown, unless that was asked for.
pub fn ask(app: &mut App) -> Option<Effect> {
    let algorithm = app.algorithm?;
    let work = app.workspace_mut().filter(|work| !work.is_stale())?;
    let wanted = Some((algorithm, work.wanted));
    let is_new = work.states.with(|shown: &mut Shown| {
        let is_new = shown.asked != wanted;
        shown.asked = wanted;
        is_new
    });
    is_new.then(|| work.analyse(work.wanted, Analysis::Published(algorithm)))
}

/// Takes what was found of a result.
pub fn take(work: &mut Workspace, revision: u64, change: PublishedChange) {
    work.states.with(|shown: &mut Shown| {
        if shown.asked == Some((change.algorithm, revision)) {
            shown.change = Some(change);
        }
    });
}

/// What the algorithm says of the last result that it was asked about; `None` until it has.
fn shown(work: &Workspace, algorithm: Algorithm) -> Option<&PublishedChange> {
    work.states.get::<Shown>()?.change.as_ref().filter(|change| change.algorithm == algorithm)
}

/// Whether that is of the result shown.
fn is_current(work: &Workspace) -> bool {
    let of = |change: &PublishedChange, shown: &Shown| shown.asked == Some((change.algorithm, work.outcome.revision));
    work.states.get::<Shown>().is_some_and(|shown| shown.change.as_ref().is_some_and(|change| of(change, shown)))
}

/// From all to the least that is shown.
pub fn figures(work: &Workspace, algorithm: Algorithm) -> Vec<Pieces> {
    let [all, short, least] = [Words::All, Words::Short, Words::Least].map(|words| said(work, algorithm, words));
    let [own, brief_own] = [Words::All, Words::Least].map(|words| {
        let mut pieces = vec![("   own replay, as drawn: ".to_owned(), Role::Dim)];
        pieces.extend(iteration(work, words).into_iter().filter(|(text, _)| text != "iteration "));
        pieces
    });
    let join = |parts: [&Pieces; 2]| parts.into_iter().flatten().cloned().collect::<Pieces>();
    let mut briefest_own = vec![("   replay ".to_owned(), Role::Dim)];
    briefest_own.extend(iteration(work, Words::Least));
    let variants = [(&all, &own), (&all, &brief_own), (&short, &brief_own), (&least, &briefest_own)];
    variants.map(|(said, own)| join([said, own])).into_iter().chain([short, least]).collect()
}

/// What the algorithm says, under its name.
fn said(work: &Workspace, algorithm: Algorithm, words: Words) -> Pieces {
    let mut pieces = vec![(format!("as {} ", algorithm.name()), Role::Warn)];
    match shown(work, algorithm).map(|change| (&change.before, &change.after)) {
        Some((Ok(before), Ok(after))) if is_current(work) => pieces.extend(times(work, before, after, words)),
        Some((Err(why), _) | (_, Err(why))) => pieces.push((format!("cannot be told: {why}"), Role::Warn)),
        _ => pieces.push(("is being computed …".to_owned(), Role::Warn)),
    }
    pieces
}

fn times(work: &Workspace, before: &Published, after: &Published, words: Words) -> Pieces {
    let mut pieces = vec![(before.simulated_ns.to_string(), Role::Strong)];
    if let Some(error) = before.error.filter(|_| words == Words::All && !work.is_edited()) {
        pieces.push((format!(" ({} of the measured)", signed_percent(error)), Role::Dim));
    }
    if work.is_edited() {
        pieces.extend(change(before.simulated_ns, after.simulated_ns, words != Words::Least));
    }
    pieces
}
