//! What an edit did to a scenario, in words.

use super::step::{Scenario, Step};

/// `added swap-gpu H200`, `changed resize-batch 64 to resize-batch 128`: what leads from `before` to `after`.
pub fn difference(before: &Scenario, after: &Scenario) -> String {
    let (before, after) = (&before.steps, &after.steps);
    let same = before.iter().zip(after).take_while(|(a, b)| a == b).count();
    let rest = (before.len() - same).min(after.len() - same);
    let ends = |(a, b): (&Step, &Step)| a == b;
    let tail = before.iter().rev().zip(after.iter().rev()).take(rest).take_while(|&pair| ends(pair)).count();
    let (out, new) = (&before[same..before.len() - tail], &after[same..after.len() - tail]);
    match (out, new) {
        ([], []) => "nothing".to_owned(),
        ([], new) => format!("added {}", listed(new)),
        (out, []) if after.is_empty() && out.len() > 1 => "took all steps out".to_owned(),
        (out, []) => format!("took out {}", listed(out)),
        ([a], [b]) if a.clone().switched(b.enabled) == *b => {
            format!("switched {} {}", if b.enabled { "on" } else { "off" }, line(a))
        }
        ([a], [b]) => format!("changed {} to {}", line(a), line(b)),
        (out, new) if is_permutation(out, new) => {
            format!("moved {}", line(if out[0] == new[1] { &new[0] } else { &out[0] }))
        }
        (out, new) => format!("{} in place of {}", listed(new), listed(out)),
    }
}

fn is_permutation(a: &[Step], b: &[Step]) -> bool {
    a.len() == b.len() && a.iter().all(|step| b.contains(step)) && b.iter().all(|step| a.contains(step))
}

/// A step, whether it is on or off.
fn line(step: &Step) -> String {
    step.clone().switched(true).to_string()
}

fn listed(steps: &[Step]) -> String {
    let lines: Vec<String> = steps.iter().map(line).collect();
    lines.join(" + ")
}

#[cfg(test)]
mod tests {
    use super::super::file::read_lines;
    use super::*;

    #[test]
    fn every_kind_of_edit_is_told_by_what_it_did() {
        let scenario = |lines: &[&str]| {
            let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
            Scenario { name: String::new(), steps: read_lines(&lines).unwrap() }
        };
        let (a, b, c) = ("scale kind=kernel x2", "remove kind=memset", "resize-batch 64");
        let off = format!("# {b}");
        for (before, after, said) in [
            (vec![a], vec![a, b], "added remove kind=memset"),
            (vec![a, b], vec![b], "took out scale kind=kernel x2"),
            (vec![a, b], vec![], "took all steps out"),
            (vec![c], vec!["resize-batch 128"], "changed resize-batch 64 to resize-batch 128"),
            (vec![a, b, c], vec![a, c, b], "moved resize-batch 64"),
            (vec![a, c], vec![c, a], "moved resize-batch 64"),
            (vec![a, b], vec![a, &off], "switched off remove kind=memset"),
            (vec![a, &off], vec![a, b], "switched on remove kind=memset"),
            (vec![a], vec![b, c], "remove kind=memset + resize-batch 64 in place of scale kind=kernel x2"),
        ] {
            assert_eq!(difference(&scenario(&before), &scenario(&after)), said);
        }
    }
}
