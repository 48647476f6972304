//! Lists to pick from by a few letters: the palette, devices, edits, themes, traces.

use crossterm::event::KeyEvent;
use nucleo_matcher::pattern::{CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher, Utf32Str};
use tui_input::Input;
use tui_input::backend::crossterm::EventHandler;

use super::insert;
use crate::session::{knobs, sample};
use crate::tui::app::App;
use crate::tui::command;
use crate::tui::theme::Theme;
use crate::tui::views::signed_percent;
use crate::tui::workspace::Workspace;
use retime_core::graph::IterationChoice;
use retime_core::graph::iteration::{self, Step};
use retime_core::scenario::grammar::{Grammar, Knob};
use retime_core::scenario::named::UNNAMED;
use retime_core::scenario::{Scenario, difference};
use retime_core::units::{DurNs, TimeNs};

/// Characters of an entry that are searched: more than are shown. States of a long history say hundreds of steps each.
const SEARCHED: usize = 300;

/// Something to pick.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What is matched and shown first.
    pub label: String,
    /// What it is.
    pub help: String,
    /// Shown at the right: keys.
    pub hint: String,
    /// The line that is run; one that ends in a space is put at the prompt instead.
    pub line: String,
}

/// The state of a list.
#[derive(Clone, Debug)]
pub struct Picker {
    /// What is picked.
    pub title: String,
    /// What is typed.
    pub input: Input,
    /// All there is.
    entries: Vec<Entry>,
    /// Indices of those that match, best first.
    matched: Vec<usize>,
    /// Which of these is chosen.
    pub chosen: usize,
    /// The entry that takes what is typed as its argument where that is nothing else on the list.
    free: Option<Free>,
    /// The theme that comes back when none is picked: the chosen one is previewed.
    pub theme_before: Option<Theme>,
}

/// An entry that takes what is typed.
#[derive(Clone, Debug)]
struct Free {
    index: usize,
    /// Whether it does.
    takes: fn(&str, &[Entry]) -> bool,
    /// The entry as it is when nothing fitting is typed.
    blank: Entry,
}

impl Picker {
    fn new(title: impl Into<String>, entries: Vec<Entry>) -> Self {
        let matched = (0..entries.len()).collect();
        Self {
            title: title.into(),
            input: Input::default(),
            entries,
            matched,
            chosen: 0,
            free: None,
            theme_before: None,
        }
    }

    /// With the entry whose label starts with `label` taking what is typed where `takes` says so.
    fn taking(mut self, label: &str, takes: fn(&str, &[Entry]) -> bool) -> Self {
        let index = self.entries.iter().position(|entry| entry.label.starts_with(label));
        self.free = index.map(|index| Free { index, takes, blank: self.entries[index].clone() });
        self
    }

    /// All commands and all edits.
    pub fn palette(app: &App) -> Self {
        let pane = app.pane();
        let commands = command::all().filter(|command| command.name != "palette").map(|command| Entry {
            label: command.usage(),
            help: command.help.to_owned(),
            hint: app.keymap.keys_of(command.name, Some(pane)).into_iter().take(2).collect::<Vec<_>>().join(" "),
            line: command.name.to_owned(),
        });
        let entries = commands.chain(Self::transforms()).collect();
        Self::new("find a command", entries)
    }

    /// All edits, each to be completed at the prompt.
    fn transforms() -> Vec<Entry> {
        let entry = |spec: &Grammar| Entry {
            label: spec.usage(),
            help: spec.help.to_owned(),
            hint: String::new(),
            line: format!("{} ", spec.name),
        };
        retime_core::scenario::transforms().iter().map(entry).collect()
    }

    /// What a sweep can vary; a selector is typed at the prompt.
    pub fn knobs(app: &App) -> Self {
        Self::knobs_for(app, "knob")
    }

    /// What a sweep can vary beside that.
    pub fn second_knobs(app: &App) -> Self {
        let mut picker = Self::knobs_for(app, "across");
        let none = Entry {
            label: "none".to_owned(),
            help: "one knob is enough".to_owned(),
            hint: String::new(),
            line: "across none".to_owned(),
        };
        picker.matched.push(picker.entries.len());
        picker.entries.push(none);
        Self { title: "vary too".to_owned(), ..picker }
    }

    fn knobs_for(app: &App, command: &str) -> Self {
        let now = app.workspace().and_then(Workspace::wanted_sweep).map(|sweep| sweep.knob);
        let entry = |knob: &Knob| Entry {
            label: knob.name.to_owned(),
            help: knob.help.to_owned(),
            hint: if now.as_deref() == Some(knob.name) { "varied now".to_owned() } else { String::new() },
            line: format!("{command} {}", knob.name),
        };
        let selector = Entry {
            label: "SELECTOR".to_owned(),
            help: "the time of selected tasks, e.g. family=gemm; or an edit but for its number".to_owned(),
            hint: String::new(),
            line: format!("{command} "),
        };
        // No name of a knob has a sign of a condition in it.
        let is_selector = |typed: &str, _: &[Entry]| typed.contains(['=', '~', '<', '>', '!']);
        Self::new("vary", knobs().map(entry).chain([selector]).collect()).taking("SELECTOR", is_selector)
    }

    /// The bundled traces.
    pub fn samples() -> Self {
        let entry = |sample: &sample::Sample| Entry {
            label: sample.name.to_owned(),
            help: sample.about.to_owned(),
            hint: String::new(),
            line: format!("samples {}", sample.name),
        };
        Self::new("open a sample", sample::ALL.iter().map(entry).collect())
    }

    /// All themes.
    pub fn themes(app: &App) -> Self {
        let entry = |name: String| Entry {
            hint: if name == app.theme.name { "in use".to_owned() } else { String::new() },
            help: String::new(),
            line: format!("theme {name}"),
            label: name,
        };
        let mut picker = Self::new("theme", Theme::names(&app.theme_files).into_iter().map(entry).collect());
        picker.theme_before = Some(app.theme.clone());
        picker
    }

    /// The opened traces; `None` when there is but one.
    pub fn traces(app: &App) -> Option<Self> {
        let entry = |(index, work): (usize, &Workspace)| Entry {
            label: work.loaded.title.clone(),
            help: format!("{} ranks, iteration {}", work.loaded.graph.ranks.len(), work.loaded.graph.measured),
            hint: if index == app.shown { "open".to_owned() } else { String::new() },
            line: format!("trace {}", index + 1),
        };
        (app.workspaces.len() > 1)
            .then(|| Self::new("which trace", app.workspaces.iter().enumerate().map(entry).collect()))
    }

    /// The marked instants, to go to, and a name for that of the cursor.
    pub fn marks(work: &Workspace) -> Self {
        let (timeline, start) = (&work.timeline, work.measured.period.start);
        let entry = |(at, mark): (usize, TimeNs)| Entry {
            label: timeline.mark_names.get(&mark).cloned().unwrap_or_else(|| "without a name".to_owned()),
            help: format!("{} into the iteration", mark.since(start)),
            hint: String::new(),
            line: format!("goto-mark {}", at + 1),
        };
        let own = Entry {
            label: "name …".to_owned(),
            help: "what is typed becomes the name of the cursor's instant".to_owned(),
            hint: String::new(),
            line: "bookmark ".to_owned(),
        };
        let is_new = |typed: &str, entries: &[Entry]| entries.iter().all(|entry| !entry.label.contains(typed));
        let entries = timeline.marks_in_order().into_iter().enumerate().map(entry).chain([own]).collect();
        Self::new("marks", entries).taking("name …", is_new)
    }

    /// Every scenario that was in force, in order, with the edit that led to it; then those that another edit overtook.
    pub fn history(work: &Workspace) -> Self {
        let states: Vec<&Scenario> = work.history.states().map(AsRef::as_ref).collect();
        let (place, line) = (work.history.place(), work.history.line());
        let entry = |at: usize| {
            let steps: Vec<String> = states[at].steps.iter().map(ToString::to_string).collect();
            let did = match at.checked_sub(1) {
                None => "as it was opened".to_owned(),
                Some(_) if at >= line => "set aside".to_owned(),
                Some(before) => difference(states[before], states[at]),
            };
            Entry {
                label: format!("{:>2} {did}", at + 1),
                help: if steps.is_empty() { "no steps".to_owned() } else { steps.join(" · ") },
                hint: match at {
                    at if at == place => "in force".to_owned(),
                    at if at > place && at < line => "undone".to_owned(),
                    _ => String::new(),
                },
                line: format!("history {}", at + 1),
            }
        };
        let mut picker = Self::new("edits", (0..states.len()).map(entry).collect());
        picker.chosen = place;
        picker
    }

    /// The scenarios, and what else can be done with them.
    pub fn scenarios(work: &Workspace) -> Self {
        let current = work.named.current();
        let own = work.named.all(work.history.current()).map(|(name, scenario)| {
            let label = if name.is_empty() { UNNAMED } else { name };
            let steps: Vec<String> = scenario.steps.iter().map(ToString::to_string).collect();
            Entry {
                label: label.to_owned(),
                help: if steps.is_empty() { "no steps".to_owned() } else { steps.join(" · ") },
                hint: if name == current { "in force".to_owned() } else { String::new() },
                line: format!("scenario switch {label}"),
            }
        });
        let ask = |action: &str, help: &str| Entry {
            label: format!("{action} …"),
            help: help.to_owned(),
            hint: String::new(),
            line: format!("scenario {action} "),
        };
        let actions = command::compare::ACTIONS.iter().filter(|(action, _)| !["switch", "drop"].contains(action));
        let is_new = |typed: &str, entries: &[Entry]| entries.iter().all(|entry| !entry.label.contains(typed));
        let entries = own.chain(actions.map(|(action, help)| ask(action, help))).collect();
        let mut picker = Self::new("scenario", entries).taking("new", is_new);
        let at = work.named.all(work.history.current()).position(|(name, _)| name == current);
        picker.chosen = at.unwrap_or(0);
        picker
    }

    /// The recorded iterations with their ranges on the host; `None` where the trace has none.
    pub fn iterations(work: &Workspace) -> Option<Self> {
        let mut ranks = work.loaded.traces().map(iteration::steps);
        let steps = ranks.next()?;
        let others: Vec<Vec<Step>> = ranks.collect();
        let written = work.loaded.traces().next().and_then(|trace| trace.iteration.as_ref());
        let usual = written.map_or_else(
            || iteration::choose(&steps, IterationChoice::Default),
            |name| steps.iter().position(|step| step.name == *name),
        );
        let median = median(&steps)?;
        let shown = work.loaded.graph.ranks.first().map_or("", |part| part.iteration.as_str());
        let off = |step: &Step| step.dur.0 as f64 / median.0.max(1) as f64 - 1.0;
        let entry = |(index, step): (usize, &Step)| Entry {
            label: format!("{index:>2} {}", step.name),
            help: format!(
                "{:>9}  {:>8}{}{}",
                step.dur.to_string(),
                signed_percent(off(step)),
                over_ranks(step, &others),
                remark(&steps, index, usual)
            ),
            hint: if step.name == shown { "modelled".to_owned() } else { String::new() },
            line: format!("iteration {index}"),
        };
        let (low, high) =
            steps.iter().map(off).fold((0.0_f64, 0.0_f64), |(low, high), off| (low.min(off), high.max(off)));
        let spread = format!("{} to {}", signed_percent(low), signed_percent(high));
        let title = format!("iteration, ranges on the host · median {median}, {spread}");
        let mut picker = Self::new(title, steps.iter().enumerate().map(entry).collect());
        picker.chosen = steps.iter().position(|step| step.name == shown).unwrap_or(0);
        Some(picker)
    }

    /// Those that match, best first.
    pub fn shown(&self) -> impl ExactSizeIterator<Item = &Entry> {
        self.matched.iter().map(|&index| &self.entries[index])
    }

    /// The chosen one.
    pub fn picked(&self) -> Option<&Entry> {
        self.matched.get(self.chosen).map(|&index| &self.entries[index])
    }

    /// Chooses another, around the end.
    pub fn move_by(&mut self, by: isize) {
        let count = self.matched.len() as isize;
        if count > 0 {
            self.chosen = (self.chosen as isize + by).rem_euclid(count) as usize;
        }
    }

    /// Lets the line editor have a key and matches anew.
    pub fn type_key(&mut self, key: KeyEvent) {
        self.input.handle_event(&crossterm::event::Event::Key(key));
        self.match_anew();
    }

    /// Puts `text` at the cursor, as much of it as a line may have, and matches once for all of it.
    pub fn paste(&mut self, text: &str) {
        insert(&mut self.input, text);
        self.match_anew();
    }

    fn match_anew(&mut self) {
        let searched =
            |entry: &Entry| entry.label.chars().chain([' ']).chain(entry.help.chars()).take(SEARCHED).collect();
        let texts: Vec<String> = self.entries.iter().map(searched).collect();
        self.matched = rank(self.input.value(), &texts);
        self.chosen = 0;
        if let Some(Free { index, takes, blank }) = self.free.clone() {
            self.entries[index] = blank;
            let typed = self.input.value().trim();
            if !typed.is_empty() && takes(typed, &self.entries) {
                let entry = &mut self.entries[index];
                entry.label = entry.label.replace('…', typed).replace("SELECTOR", typed);
                entry.line.push_str(typed);
                self.matched.retain(|&other| other != index);
                self.matched.insert(0, index);
            }
        }
    }
}

/// The middle length of the steps, the lower of two.
fn median(steps: &[Step]) -> Option<DurNs> {
    let mut lengths: Vec<DurNs> = steps.iter().map(|step| step.dur).collect();
    lengths.sort_unstable();
    lengths.get(lengths.len().checked_sub(1)? / 2).copied()
}

/// How long a step took on the ranks, and on how many it was not recorded; empty for a single rank.
fn over_ranks(step: &Step, others: &[Vec<Step>]) -> String {
    if others.is_empty() {
        return String::new();
    }
    let same = others.iter().filter_map(|steps| steps.iter().find(|other| other.name == step.name));
    let lengths: Vec<DurNs> = same.map(|other| other.dur).chain([step.dur]).collect();
    let (least, most) = lengths.iter().fold((step.dur, step.dur), |(low, high), &dur| (low.min(dur), high.max(dur)));
    let missing = others.len() + 1 - lengths.len();
    let lacking = if missing > 0 { format!(", not on {missing}") } else { String::new() };
    format!("  {least}–{most} on {} ranks{lacking}", lengths.len())
}

/// Why a step is or is not the one modelled as a rule.
fn remark(steps: &[Step], index: usize, usual: Option<usize>) -> &'static str {
    let most = steps.iter().map(|step| step.events).max().unwrap_or(0);
    match &steps[index] {
        _ if usual == Some(index) => "  the usual choice: middle of the whole ones",
        step if step.observed => "  slowed by an observer",
        step if step.events * 2 < most => "  not recorded whole",
        _ if index == 0 && steps.len() >= 3 => "  the first: still warming up",
        _ => "",
    }
}

/// Indices of the texts that `typed` matches, best first; all in order when nothing is typed.
pub fn rank(typed: &str, texts: &[String]) -> Vec<usize> {
    let mut matcher = Matcher::new(Config::DEFAULT);
    let pattern = Pattern::parse(typed, CaseMatching::Smart, Normalization::Smart);
    let mut buffer = Vec::new();
    let scored = texts.iter().enumerate().filter_map(|(index, text)| {
        let score = pattern.score(Utf32Str::new(text, &mut buffer), &mut matcher)?;
        Some((std::cmp::Reverse(score), index))
    });
    let mut scored: Vec<_> = scored.collect();
    scored.sort_unstable();
    scored.into_iter().map(|(_, index)| index).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_and_not_on_the_list_is_an_argument() {
        let entry = |label: &str, line: &str| Entry {
            label: label.to_owned(),
            help: "keep the steps".to_owned(),
            hint: String::new(),
            line: line.to_owned(),
        };
        let entries = vec![entry("small", "scenario switch small"), entry("new …", "scenario new ")];
        let is_new = |typed: &str, entries: &[Entry]| entries.iter().all(|entry| !entry.label.contains(typed));
        let mut picker = Picker::new("scenario", entries).taking("new", is_new);
        let mut typed = |text: &str| {
            text.chars().for_each(|letter| picker.type_key(crossterm::event::KeyCode::Char(letter).into()));
            picker.picked().map(|entry| (entry.label.clone(), entry.line.clone()))
        };
        let pair = |label: &str, line: &str| Some((label.to_owned(), line.to_owned()));
        assert_eq!(typed("sm"), pair("small", "scenario switch small"));
        assert_eq!(typed("oke"), pair("new smoke", "scenario new smoke"));
        picker.input = Input::default();
        picker.paste("smoke");
        assert_eq!(picker.picked().map(|entry| entry.line.as_str()), Some("scenario new smoke"));
        (0..3).for_each(|_| picker.paste(&"x".repeat(900)));
        assert_eq!(picker.input.value().len(), crate::tui::overlay::LONGEST_LINE);
    }

    #[test]
    fn a_few_letters_find_the_best_match_first() {
        let texts = ["zoom-in show less".to_owned(), "gpu swap the GPU for another".to_owned(), "undo".to_owned()];
        assert_eq!(rank("swap gpu", &texts), [1]);
        assert_eq!(rank("", &texts), [0, 1, 2]);
        assert_eq!(rank("zi", &texts)[0], 0);
    }
}
