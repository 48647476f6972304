//! Undo and redo over whole scenarios; the drag of a slider counts as one edit.

use std::sync::Arc;

use super::step::{Scenario, Step};

/// The scenarios a user went through, and which one is in force. Never empty.
#[derive(Clone, Debug)]
pub struct History {
    past: Vec<Arc<Scenario>>,
    now: Arc<Scenario>,
    future: Vec<Arc<Scenario>>,
    /// What is being dragged: further changes of the same thing replace the current scenario.
    dragged: Option<String>,
    /// What was undone and then overtaken by another edit, oldest first.
    set_aside: Vec<Arc<Scenario>>,
    /// How many of them only what is dragged overtook: they come back with it.
    overtaken: usize,
    revision: u64,
}

/// Scenarios that are kept beside the line of edits, at most.
const MOST_SET_ASIDE: usize = 100;
/// Edits that can be undone, at most.
const MOST_UNDONE: usize = 1_000;
/// Steps that the states which undoing leads to have together, at most: each state holds all of its own.
const MOST_STEPS_UNDONE: usize = 100_000;

impl Default for History {
    fn default() -> Self {
        Self::new(Scenario::default())
    }
}

impl History {
    /// Starts at `scenario`, with nothing to undo.
    pub fn new(scenario: Scenario) -> Self {
        Self {
            past: Vec::new(),
            now: Arc::new(scenario),
            future: Vec::new(),
            dragged: None,
            set_aside: Vec::new(),
            overtaken: 0,
            revision: 0,
        }
    }

    /// The scenario in force.
    pub fn current(&self) -> &Arc<Scenario> {
        &self.now
    }

    /// Grows with every change, undo and redo included.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Counts the scenario in force as changed, so that it is evaluated anew.
    pub fn touch(&mut self) {
        self.revision += 1;
    }

    /// Counts as changed after `other`, whose place it takes.
    pub fn follow(&mut self, other: &Self) {
        self.revision = self.revision.max(other.revision) + 1;
    }

    /// Whether there is something to undo.
    pub fn can_undo(&self) -> bool {
        !self.past.is_empty()
    }

    /// Whether there is something to redo.
    pub fn can_redo(&self) -> bool {
        !self.future.is_empty()
    }

    /// Puts `scenario` in force as a new edit; one equal to the current is no edit.
    pub fn push(&mut self, scenario: Scenario) {
        self.dragged = None;
        self.replace(scenario, true);
    }

    /// Puts `scenario` in force as a part of dragging `what`: the first part is an edit, the rest change it.
    pub fn drag(&mut self, what: &str, scenario: Scenario) {
        let continues = self.dragged.as_deref() == Some(what);
        if !continues && *self.now == scenario {
            return;
        }
        let undone = self.future.len();
        self.replace(scenario, !continues);
        if !continues {
            self.overtaken = undone - self.future.len();
        }
        self.dragged = Some(what.to_owned());
    }

    /// Whether what is dragged now has a name that begins with `what`.
    pub fn is_dragging(&self, what: &str) -> bool {
        self.dragged.as_deref().is_some_and(|dragged| dragged.starts_with(what))
    }

    /// Takes a drag back as if it had not been; false when there is none.
    pub fn cancel(&mut self) -> bool {
        let Some(before) = self.dragged.take().and_then(|_| self.past.pop()) else { return false };
        self.now = before;
        let kept = self.set_aside.len().saturating_sub(self.overtaken);
        self.future = self.set_aside.drain(kept..).rev().collect();
        self.moved()
    }

    /// Ends a drag: the next one is an edit of its own.
    pub fn release(&mut self) {
        self.dragged = None;
    }

    fn replace(&mut self, mut scenario: Scenario, is_edit: bool) {
        if *self.now == scenario {
            return;
        }
        scenario.steps.shrink_to_fit();
        let before = std::mem::replace(&mut self.now, Arc::new(scenario));
        if is_edit {
            self.past.push(before);
            self.forget();
        }
        self.set_aside.extend(self.future.drain(..).rev());
        let over = self.set_aside.len().saturating_sub(MOST_SET_ASIDE);
        self.set_aside.drain(..over);
        self.revision += 1;
    }

    /// Lets the oldest states go that are beyond what is kept; the last one stays.
    fn forget(&mut self) {
        let mut over = self.past.len().saturating_sub(MOST_UNDONE);
        let mut steps: usize = self.past[over..].iter().map(|state| state.steps.len()).sum();
        while steps > MOST_STEPS_UNDONE && over + 1 < self.past.len() {
            steps -= self.past[over].steps.len();
            over += 1;
        }
        self.past.drain(..over);
    }

    /// Goes back one edit; false when there is none.
    pub fn undo(&mut self) -> bool {
        let Some(before) = self.past.pop() else { return false };
        self.future.push(std::mem::replace(&mut self.now, before));
        self.moved()
    }

    /// Goes forward again one edit; false when there is none.
    pub fn redo(&mut self) -> bool {
        let Some(after) = self.future.pop() else { return false };
        self.past.push(std::mem::replace(&mut self.now, after));
        self.moved()
    }

    /// All scenarios that can be gone to: those that undoing leads to, oldest first, the one in force, those that redoing
    /// leads to, and those that were undone and then overtaken by another edit.
    pub fn states(&self) -> impl ExactSizeIterator<Item = &Arc<Scenario>> {
        let all: Vec<&Arc<Scenario>> =
            self.past.iter().chain([&self.now]).chain(self.future.iter().rev()).chain(&self.set_aside).collect();
        all.into_iter()
    }

    /// The place of the one in force among [`states`](Self::states).
    pub fn place(&self) -> usize {
        self.past.len()
    }

    /// How many of [`states`](Self::states) undoing and redoing lead to.
    pub fn line(&self) -> usize {
        self.past.len() + 1 + self.future.len()
    }

    /// Goes to one of [`states`](Self::states); what was set aside comes back as an edit. False when there is no such.
    pub fn go_to(&mut self, place: usize) -> bool {
        if let Some(scenario) = place.checked_sub(self.line()).and_then(|at| self.set_aside.get(at)) {
            let scenario = Scenario::clone(scenario);
            self.push(scenario);
            return true;
        }
        if place >= self.line() {
            return false;
        }
        while place < self.place() && self.undo() {}
        while place > self.place() && self.redo() {}
        true
    }

    fn moved(&mut self) -> bool {
        self.dragged = None;
        self.revision += 1;
        true
    }

    fn edit(&mut self, change: impl FnOnce(&mut Vec<Step>) -> bool) -> bool {
        let mut scenario = Scenario::clone(&self.now);
        let changed = change(&mut scenario.steps);
        if changed {
            self.push(scenario);
        }
        changed
    }

    /// Appends a step.
    pub fn append(&mut self, step: Step) {
        self.edit(|steps| {
            steps.push(step);
            true
        });
    }

    /// Puts `step` in the place of step `index`; false when there is no such step.
    pub fn set(&mut self, index: usize, step: Step) -> bool {
        self.edit(|steps| steps.get_mut(index).map(|place| *place = step).is_some())
    }

    /// Removes step `index`; false when there is no such step.
    pub fn remove(&mut self, index: usize) -> bool {
        self.edit(|steps| (index < steps.len()).then(|| steps.remove(index)).is_some())
    }

    /// Enables or disables step `index`; false when there is no such step.
    pub fn toggle(&mut self, index: usize) -> bool {
        self.edit(|steps| steps.get_mut(index).map(|step| step.enabled = !step.enabled).is_some())
    }

    /// Moves step `from` to position `to`; false when either is out of range or they are equal.
    pub fn reorder(&mut self, from: usize, to: usize) -> bool {
        self.edit(|steps| {
            let possible = from < steps.len() && to < steps.len() && from != to;
            if possible {
                let step = steps.remove(from);
                steps.insert(to, step);
            }
            possible
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse_step;
    use super::*;

    fn scenario(lines: &[&str]) -> Scenario {
        Scenario::parse(lines.iter().copied()).unwrap()
    }

    fn lines(history: &History) -> Vec<String> {
        history.current().steps.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_drag_is_undone_at_once() {
        let mut history = History::default();
        for factor in ["x2", "x3", "x4"] {
            history.drag("scale", scenario(&[&format!("scale kind=kernel {factor}")]));
        }
        assert_eq!(lines(&history), ["scale kind=kernel x4"]);
        assert!(history.undo());
        assert!(lines(&history).is_empty() && !history.can_undo());
        assert!(history.redo());
        assert_eq!(lines(&history), ["scale kind=kernel x4"]);
    }

    #[test]
    fn a_new_edit_forgets_what_was_undone() {
        let mut history = History::default();
        history.append(parse_step("scale kind=kernel x2").unwrap());
        history.append(parse_step("remove kind=memset").unwrap());
        history.undo();
        history.append(parse_step("scale kind=memcpy x0.5").unwrap());
        assert!(!history.redo());
        assert_eq!(lines(&history), ["scale kind=kernel x2", "scale kind=memcpy x0.5"]);
    }

    #[test]
    fn long_scenarios_are_undone_less_often() {
        let mut history = History::default();
        for at in 1..=MOST_UNDONE {
            history.append(parse_step(&format!("resize-batch {at}")).unwrap());
        }
        let kept: usize = history.states().map(|state| state.steps.len()).sum();
        assert!((MOST_STEPS_UNDONE / 2..=MOST_STEPS_UNDONE + MOST_UNDONE).contains(&kept), "{kept}");
        assert!(history.undo() && history.current().steps.len() == MOST_UNDONE - 1);
    }

    #[test]
    fn a_drag_that_is_taken_back_leaves_what_was_undone() {
        let mut history = History::default();
        history.append(parse_step("remove kind=memset").unwrap());
        history.undo();
        history.drag("scale", scenario(&["scale kind=kernel x2"]));
        history.drag("scale", scenario(&["scale kind=kernel x3"]));
        assert!(history.cancel() && history.redo());
        assert_eq!(lines(&history), ["remove kind=memset"]);
    }

    #[test]
    fn the_oldest_edits_are_forgotten() {
        let mut history = History::default();
        for batch in 1..=3 * MOST_UNDONE {
            history.push(scenario(&[&format!("resize-batch {batch}")]));
        }
        let undone = std::iter::repeat_with(|| history.undo()).take_while(|is_undone| *is_undone).count();
        assert_eq!((undone, lines(&history)), (MOST_UNDONE, vec![format!("resize-batch {}", 2 * MOST_UNDONE)]));
        assert_eq!(history.line(), MOST_UNDONE + 1, "all can be gone forward to again");
    }

    #[test]
    fn what_another_edit_overtook_can_be_gone_back_to() {
        let mut history = History::default();
        history.append(parse_step("scale kind=kernel x2").unwrap());
        history.append(parse_step("remove kind=memset").unwrap());
        assert!(history.go_to(0) && lines(&history).is_empty());
        assert!(history.go_to(2) && lines(&history).len() == 2, "forward again, nothing lost");
        history.undo();
        history.append(parse_step("scale kind=memcpy x0.5").unwrap());
        let counts: Vec<usize> = history.states().map(|scenario| scenario.steps.len()).collect();
        assert_eq!((counts, history.place(), history.line()), (vec![0, 1, 2, 2], 2, 3));
        assert!(history.go_to(3) && !history.go_to(9));
        assert_eq!(lines(&history), ["scale kind=kernel x2", "remove kind=memset"]);
        assert!(history.undo());
        assert_eq!(lines(&history), ["scale kind=kernel x2", "scale kind=memcpy x0.5"]);
    }

    #[test]
    fn steps_are_moved_disabled_and_removed() {
        let mut history = History::new(scenario(&["scale kind=kernel x2", "remove kind=memset"]));
        assert!(history.reorder(0, 1) && history.toggle(1));
        assert_eq!(lines(&history), ["remove kind=memset", "scale kind=kernel x2"]);
        assert!(!history.current().steps[1].enabled);
        assert!(history.remove(0) && !history.remove(5) && !history.reorder(0, 0));
        assert_eq!(lines(&history), ["scale kind=kernel x2"]);
        let before = history.revision();
        history.push(Scenario::clone(history.current()));
        assert_eq!(history.revision(), before);
    }
}
