//! Every edit of the table is read from what it writes, and completed from every beginning of it.

use proptest::prelude::*;
use proptest::sample::select;

use crate::scenario::step::{next, parse_placed, parse_step};
use crate::scenario::transforms;

use super::{Argument, Kind, What};

const SELECTORS: [&str; 5] =
    ["kind=kernel", "name~relu & !phase=backward", "(rank=0 | rank=1)", "name=\"a b\" & dur>50us", "*"];

/// Texts of a kind, in and out of the form that edits write.
fn text(argument: &Argument) -> BoxedStrategy<String> {
    let of = |words: &'static [&'static str]| select(words).prop_map(str::to_owned).boxed();
    match argument.kind {
        Kind::Selector => of(&SELECTORS),
        Kind::Device => of(&["H200", "TITAN Xp", "Quadro RTX 6000"]),
        Kind::Link => of(&["NVLink4", "InfiniBand-HDR"]),
        Kind::Overheads => of(&["measured", "mean", "over heads.json"]),
        Kind::Plan => of(&["naive", "random(3)", "t3:r1", "t3:r1  t7:r0,r2(col,uvm=0.9)"]),
        Kind::Operator => of(&["aten::relu", "relu", "aten::_softmax"]),
        Kind::Name => of(&["probe", "my_kernel<float>"]),
        Kind::Time => of(&["35us", "1.5ms", "0s", "7µs"]),
        Kind::Choice(_, among) => of(among),
        Kind::Whole(from, to) => prop_oneof![from..=to, Just(from), Just(to)].prop_map(|n| n.to_string()).boxed(),
        Kind::Number(from, to) | Kind::Ratio(from, to) => (from..=to).prop_map(|n| n.to_string()).boxed(),
        Kind::Factor(from, to) => {
            let number = prop_oneof![from..=to, Just(1.0), Just(0.5)];
            (select(&["x", "", "×", "X"][..]), number).prop_map(|(x, n)| format!("{x}{n}")).boxed()
        }
    }
}

/// Lines of every edit, with and without what may be left out.
fn lines() -> impl Strategy<Value = String> {
    let forms: Vec<_> = transforms().iter().flat_map(|edit| edit.forms.iter().map(move |form| (edit, form))).collect();
    select(forms).prop_flat_map(|(edit, form)| {
        let each: Vec<_> = form.arguments.iter().map(|argument| (text(argument), any::<bool>())).collect();
        each.prop_map(move |values| {
            let mut line = edit.name.to_owned();
            for (argument, (value, left_out)) in form.arguments.iter().zip(values) {
                if argument.is_optional && left_out {
                    if argument.keyword().is_empty() {
                        break;
                    }
                    continue;
                }
                line += argument.lead;
                line += &value;
            }
            line
        })
    })
}

/// Whether some way to go on from the first `end` bytes of a line leads to the whole of it.
fn continues(line: &str, end: usize) -> bool {
    let (step, reading) = parse_placed(line).unwrap();
    let is_at = |argument: &Argument, before: &str| {
        let column = before.chars().count() + 1;
        let known = reading.form.arguments.iter().zip(&reading.values);
        let mut values = known.filter_map(|(known, value)| Some((known, value.as_ref()?.1)));
        values.any(|(known, at)| at == column && std::ptr::eq(known, argument))
    };
    next(&line[..end]).iter().any(|next| match next.what {
        What::Edit(edit) => edit.name == step.name() && edit.name.starts_with(next.typed),
        What::Text(text) => line[next.before.len()..].starts_with(text) && text.starts_with(next.typed),
        What::Argument(argument) => is_at(argument, next.before),
    })
}

proptest! {
    #[test]
    fn what_an_edit_writes_reads_back_as_the_same(line in lines()) {
        let step = parse_step(&line).unwrap();
        let written = step.to_string();
        let again = parse_step(&written).unwrap();
        prop_assert_eq!(&again, &step);
        prop_assert_eq!(again.to_string(), written);
    }

    #[test]
    fn every_beginning_of_a_line_can_be_continued_to_it(line in lines()) {
        let line = parse_step(&line).unwrap().to_string();
        for (end, _) in line.char_indices().skip(1) {
            prop_assert!(continues(&line, end), "{line}: {}", &line[..end]);
        }
    }
}

#[test]
fn examples_are_as_edits_write_them_and_can_be_continued() {
    for edit in transforms() {
        assert_eq!(parse_step(edit.example).unwrap().to_string(), edit.example);
        for (end, _) in edit.example.char_indices() {
            assert!(continues(edit.example, end), "{}", &edit.example[..end]);
        }
        for knob in edit.knobs {
            let step = parse_step(knob.line).unwrap();
            assert!(step.name() == edit.name && step.number(knob.argument).is_some(), "{}", knob.name);
            assert!(!knob.help.is_empty() && !knob.unit.is_empty(), "{}", knob.name);
        }
    }
}

#[test]
fn keywords_are_offered_where_they_may_come() {
    for (line, expected) in [
        ("parallelize name~a u", "until "),
        ("parallelize name~a ", "until "),
        ("reorder name~a & name~b bef", "before "),
        ("swap-gpu TITAN Xp h", "host "),
        ("resize-batch 64 ", "from "),
        ("resize-op name~a 64", "->"),
        ("checkpoint phase=forward seg", "segments="),
        ("insert k", "kernel "),
        ("insert kernel a 1us ", "on stream "),
        ("insert kernel a 1us on ", "stream "),
        ("insert kernel a 1us on stream 7 ", "after "),
        ("insert aten::relu after name~a l", "like "),
    ] {
        let offered: Vec<&str> = next(line)
            .iter()
            .filter_map(|next| match next.what {
                What::Text(text) => Some(text),
                _ => None,
            })
            .collect();
        assert!(offered.contains(&expected), "{line}: {offered:?}");
    }
    // A space may be of several bytes.
    assert!(!next("parallelize name~a\u{a0}u").is_empty() && !next("reorder name~a\u{3000}").is_empty());
    assert!(next("parallelize name~a until name~b ").iter().all(|next| !matches!(next.what, What::Text(_))));
}

#[test]
fn usages_show_what_may_be_left_out() {
    let usage = |name: &str| transforms().iter().find(|edit| edit.name == name).unwrap().usage();
    assert_eq!(usage("scale-ranks"), "scale-ranks N [LINK [PER-NODE [NICS [ring|tree]]]]");
    assert_eq!(usage("swap-gpu"), "swap-gpu DEVICE [host xFACTOR]");
    assert_eq!(usage("resize-op"), "resize-op SELECTOR OLD->NEW");
    assert_eq!(
        usage("insert"),
        "insert kernel NAME TIME [on stream N] after SELECTOR | insert OPERATOR after SELECTOR [like SELECTOR]"
    );
}
