//! The scenarios of one trace by name: one is in force, the others wait with all their past.

use super::history::History;
use super::step::Scenario;
use super::text::StepError;

/// Most letters of a name.
const LONGEST: usize = 40;
/// What the scenario is called that has no name yet.
pub const UNNAMED: &str = "unnamed";
/// The untouched trace, which is no scenario.
const RESERVED: [&str; 2] = ["base", UNNAMED];

/// Names with what waits behind each. Which one is in force is always among them; its history is held by whoever edits it.
#[derive(Clone, Debug)]
pub struct NamedScenarios {
    slots: Vec<Slot>,
    at: usize,
}

#[derive(Clone, Debug)]
struct Slot {
    /// Empty for the one without a name.
    name: String,
    /// `None` while it is in force.
    waiting: Option<History>,
}

impl Default for NamedScenarios {
    fn default() -> Self {
        Self { slots: vec![Slot { name: String::new(), waiting: None }], at: 0 }
    }
}

impl NamedScenarios {
    /// Those of a saved session: all in order, of which the one named `current` is in force.
    pub fn restored(all: &[Scenario], current: &str) -> Self {
        let waiting = |scenario: &Scenario| Slot {
            name: scenario.name.clone(),
            waiting: (scenario.name != current).then(|| History::new(scenario.clone())),
        };
        let mut slots: Vec<Slot> = all.iter().map(waiting).collect();
        let at = slots.iter().position(|slot| slot.waiting.is_none()).unwrap_or(slots.len());
        if at == slots.len() {
            slots.push(Slot { name: current.to_owned(), waiting: None });
        }
        Self { slots, at }
    }

    /// The name of the one in force; empty where it has none.
    pub fn current(&self) -> &str {
        &self.slots[self.at].name
    }

    /// All of them in order of their making, with their steps; `now` is the one in force.
    pub fn all<'a>(&'a self, now: &'a Scenario) -> impl ExactSizeIterator<Item = (&'a str, &'a Scenario)> {
        self.slots.iter().map(move |slot| {
            let scenario = slot.waiting.as_ref().map_or(now, |history| history.current());
            (slot.name.as_str(), scenario)
        })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.slots.len()
    }

    /// Keeps the steps in force under `name`: one without a name gets it, of any other a copy is made and put in force.
    ///
    /// # Errors
    /// The name is taken, reserved, empty or too long.
    pub fn keep(&mut self, now: &mut History, name: &str) -> Result<(), String> {
        let name = self.free(name)?;
        if self.current().is_empty() {
            self.slots[self.at].name = name;
            return Ok(());
        }
        let copy = History::new(Scenario::clone(now.current()));
        self.begin(now, name, copy);
        Ok(())
    }

    /// Puts a scenario without steps in force under `name`.
    ///
    /// # Errors
    /// As [`Self::keep`].
    pub fn blank(&mut self, now: &mut History, name: &str) -> Result<(), String> {
        let name = self.free(name)?;
        if self.current().is_empty() && now.current().steps.is_empty() {
            self.slots[self.at].name = name;
            return Ok(());
        }
        self.begin(now, name, History::default());
        Ok(())
    }

    /// Adds a scenario that waits under its own name, or the nearest that is free.
    ///
    /// # Returns
    /// The name.
    pub fn add(&mut self, scenario: Scenario, otherwise: &str) -> String {
        let wanted = [scenario.name.trim(), otherwise.trim(), "scenario"].into_iter().find(|name| !name.is_empty());
        let wanted: String = wanted.unwrap_or_default().chars().filter(|c| !c.is_control()).take(LONGEST - 4).collect();
        let numbered = (2..).map(|number| format!("{wanted} {number}"));
        let name = std::iter::once(wanted.clone()).chain(numbered).find_map(|name| self.free(&name).ok());
        let name = name.unwrap_or_default();
        self.slots.push(Slot { name: name.clone(), waiting: Some(History::new(scenario)) });
        name
    }

    /// Puts the scenario of that name in force; the one before waits with all its past.
    ///
    /// # Errors
    /// There is none, with the nearest name.
    pub fn switch(&mut self, now: &mut History, name: &str) -> Result<(), String> {
        let to = self.position(name)?;
        self.exchange(now, to);
        Ok(())
    }

    /// Gives the one in force another name.
    ///
    /// # Errors
    /// As [`Self::keep`].
    pub fn rename(&mut self, name: &str) -> Result<(), String> {
        let name = self.free(name)?;
        self.slots[self.at].name = name;
        Ok(())
    }

    /// Takes a scenario away; when it is in force the one beside it takes its place.
    ///
    /// # Returns
    /// How many steps it had.
    ///
    /// # Errors
    /// There is none of that name, or no other.
    pub fn drop(&mut self, now: &mut History, name: &str) -> Result<usize, String> {
        let gone = self.position(name)?;
        if self.slots.len() == 1 {
            return Err("it is the only scenario: `base` takes its steps out".to_owned());
        }
        let steps = self.slots[gone].waiting.as_ref().unwrap_or(now).current().steps.len();
        if gone == self.at {
            self.exchange(now, if gone > 0 { gone - 1 } else { 1 });
        }
        self.slots.remove(gone);
        self.at -= usize::from(self.at > gone);
        Ok(steps)
    }

    fn begin(&mut self, now: &mut History, name: String, history: History) {
        let place = self.at + 1;
        self.slots.insert(place, Slot { name, waiting: Some(history) });
        self.exchange(now, place);
    }

    fn exchange(&mut self, now: &mut History, to: usize) {
        if let Some(mut wanted) = self.slots[to].waiting.take() {
            wanted.release();
            wanted.follow(now);
            self.slots[self.at].waiting = Some(std::mem::replace(now, wanted));
            self.at = to;
        }
    }

    fn position(&self, name: &str) -> Result<usize, String> {
        let name = name.trim();
        let shown = |slot: &Slot| if slot.name.is_empty() { UNNAMED.to_owned() } else { slot.name.clone() };
        let names: Vec<String> = self.slots.iter().map(shown).collect();
        let found = names.iter().position(|known| known == name);
        found.ok_or_else(|| StepError::unknown(1, "scenario", name, names.iter().map(String::as_str)).message)
    }

    /// The name, if it may be given.
    fn free(&self, name: &str) -> Result<String, String> {
        let name = name.trim();
        if name.is_empty() {
            return Err("name the scenario".to_owned());
        }
        if name.chars().count() > LONGEST || name.chars().any(char::is_control) {
            return Err(format!("a name has up to {LONGEST} letters"));
        }
        if RESERVED.contains(&name) {
            return Err(format!("`{name}` is the name of something else"));
        }
        if self.slots.iter().any(|slot| slot.name == name) {
            return Err(format!("there is a scenario `{name}` already: `scenario switch {name}` goes there"));
        }
        Ok(name.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse_step;
    use super::*;

    fn lines(history: &History) -> Vec<String> {
        history.current().steps.iter().map(ToString::to_string).collect()
    }

    fn names<'a>(named: &'a NamedScenarios, now: &'a History) -> Vec<(&'a str, usize)> {
        named.all(now.current()).map(|(name, scenario)| (name, scenario.steps.len())).collect()
    }

    #[test]
    fn every_scenario_keeps_its_own_past() {
        let (mut named, mut now) = (NamedScenarios::default(), History::default());
        now.append(parse_step("scale kind=kernel x2").unwrap());
        named.keep(&mut now, "double").unwrap();
        assert_eq!((named.current(), named.count()), ("double", 1), "what had no name got one");
        named.keep(&mut now, "more").unwrap();
        now.append(parse_step("remove kind=memset").unwrap());
        let revision = now.revision();
        named.switch(&mut now, "double").unwrap();
        assert_eq!(lines(&now), ["scale kind=kernel x2"]);
        assert!(now.revision() > revision, "what was computed before is of another scenario");
        assert!(now.undo() && lines(&now).is_empty());
        named.switch(&mut now, "more").unwrap();
        assert_eq!(lines(&now), ["scale kind=kernel x2", "remove kind=memset"]);
        assert!(now.undo());
        assert_eq!(lines(&now), ["scale kind=kernel x2"]);
        assert!(!now.undo(), "the copy began there");
        named.blank(&mut now, "plain").unwrap();
        assert_eq!(names(&named, &now), [("double", 0), ("more", 1), ("plain", 0)]);
    }

    #[test]
    fn the_one_in_force_may_be_dropped_but_not_the_last() {
        let (mut named, mut now) = (NamedScenarios::default(), History::default());
        named.keep(&mut now, "a").unwrap();
        named.blank(&mut now, "b").unwrap();
        now.append(parse_step("remove kind=memset").unwrap());
        named.blank(&mut now, "c").unwrap();
        assert_eq!(named.drop(&mut now, "b"), Ok(1));
        assert_eq!(named.current(), "c");
        assert_eq!(named.drop(&mut now, "c"), Ok(0));
        assert_eq!(names(&named, &now), [("a", 0)]);
        assert!(named.drop(&mut now, "a").unwrap_err().contains("only"));
    }

    #[test]
    fn names_are_unique_and_a_mistyped_one_finds_the_nearest() {
        let (mut named, mut now) = (NamedScenarios::default(), History::default());
        named.keep(&mut now, "larger batch").unwrap();
        named.blank(&mut now, "h200").unwrap();
        assert!(named.switch(&mut now, "larger bach").unwrap_err().contains("did you mean `larger batch`?"));
        for (name, why) in [("h200", "already"), ("base", "something else"), ("", "name"), (&"x".repeat(41), "40")] {
            assert!(named.keep(&mut now, name).unwrap_err().contains(why), "{name}");
        }
        let all: Vec<Scenario> =
            named.all(now.current()).map(|(name, it)| Scenario { name: name.to_owned(), ..it.clone() }).collect();
        let restored = NamedScenarios::restored(&all, named.current());
        assert_eq!(names(&restored, &now), names(&named, &now));
        assert_eq!(restored.current(), "h200");
    }
}
