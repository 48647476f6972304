//! Lines of steps: what is read, what is refused and how, and that later steps reach what earlier ones added.

use proptest::prelude::*;
use retime_core::scenario::{parse_step, transforms};

use crate::support::jobs::of_shared;

#[test]
fn later_steps_reach_what_earlier_ones_added() {
    let Some(opened) = of_shared("vgg13-h100-train") else { return };
    let insert = "insert kernel probe 100us after family=conv";
    let (before, with) = (opened.time(&[]), opened.time(&[insert]));
    assert!(with > before, "{with} {before}");
    let twice = opened.time(&[insert, "scale kernel=probe x2"]);
    assert_eq!(twice, opened.time(&["insert kernel probe 200us after family=conv"]));
    let resolved = opened.resolve(&[insert, "remove kernel=probe"]);
    assert!(resolved.added.is_empty(), "{} left", resolved.added.len());
    let resolved = opened.resolve(&[insert, "insert kernel next 1us after kernel=probe"]);
    let named = |name: &str| resolved.added.iter().filter(|added| *added.name == *name).count();
    assert!(named("probe") > 0 && named("probe") == named("next"), "{}: {}", opened.name, opened.context.devices.len());
    assert!(resolved.graph.tasks.node_count() == opened.base.graph().tasks.node_count());
}

#[test]
fn each_accumulated_batch_takes_as_long_on_jobs_of_several_ranks() {
    for path in ["torchrec-v100x4", "dlrm-v100x8"] {
        let Some(opened) = of_shared(path) else { continue };
        // Nothing waits in a circle, so no dependency is left out.
        assert_eq!(opened.resolve(&["accumulate 3"]).cyclic, 0, "{path}");
        let [one, two, three] = [&[][..], &["accumulate 2"], &["accumulate 3"]].map(|lines| opened.time(lines) as f64);
        let (second, third) = (two - one, three - two);
        assert!(second > 0.0 && (third / second - 1.0).abs() < 0.02, "{path}: {one} {two} {three}");
    }
}

/// A number in the line of an edit: the edit, the word for it in the edit's usage, a line with `{}` in its place, numbers that
/// are too small and too large, and what is said of both.
type Parameter = (&'static str, &'static str, &'static str, [&'static str; 2], &'static str);

const PARAMETERS: [Parameter; 26] = [
    ("resize-batch", "N", "resize-batch {}", ["0", "1073741825"], "from 1 to 1073741824"),
    ("resize-batch", "B", "resize-batch 8 from {}", ["0", "1073741825"], "from 1 to 1073741824"),
    ("reshard-tables", "N", "reshard-tables t{}:r1", ["-1", "99999999999999999999"], "from 0"),
    ("reshard-tables", "RANK", "reshard-tables t0:r{}", ["-1", "99999999999999999999"], "from 0"),
    ("reshard-tables", "A", "reshard-tables t0:r{},r1(col)", ["-1", "99999999999999999999"], "from 0"),
    ("reshard-tables", "B", "reshard-tables t0:r0,r{}(row)", ["-1", "99999999999999999999"], "from 0"),
    ("reshard-tables", "HITS", "reshard-tables t0:r0(uvm={})", ["-0.1", "1.01"], "from 0 to 1"),
    (
        "reshard-tables",
        "SEED",
        "reshard-tables random({})",
        ["-1", "18446744073709551616"],
        "from 0 to 18446744073709551615",
    ),
    ("swap-gpu", "FACTOR", "swap-gpu H200 host x{}", ["0", "1001"], "from 0.001 to 1000"),
    ("scale", "FACTOR", "scale kind=kernel x{}", ["-0.1", "1000001"], "from 0 to 1000000"),
    ("insert", "TIME", "insert kernel a {}us after kind=kernel", ["-1", "1e11"], "from 0s to 10000s"),
    ("insert", "N", "insert kernel a 1us on stream {} after kind=kernel", ["-1", "9999"], "from 0 to 9998"),
    ("scale-ranks", "N", "scale-ranks {}", ["0", "65537"], "from 1 to 65536"),
    ("scale-ranks", "PER-NODE", "scale-ranks 16 InfiniBand-HDR {}", ["0", "65537"], "from 1 to 65536"),
    ("scale-ranks", "NICS", "scale-ranks 16 InfiniBand-HDR 8 {}", ["0", "65537"], "from 1 to 65536"),
    ("bucket-size", "MIB", "bucket-size {}", ["0", "1000001"], "from 0.001 to 1000000"),
    ("compress-comm", "RATIO", "compress-comm {}", ["0.9", "10001"], "from 1 to 10000"),
    ("accumulate", "K", "accumulate {}", ["0", "257"], "from 1 to 256"),
    ("checkpoint", "N", "checkpoint phase=forward segments={}", ["0", "1001"], "from 1 to 1000"),
    ("resize-op", "OLD", "resize-op kind=kernel {}->64", ["0", "1099511627777"], "from 1 to 1099511627776"),
    ("resize-op", "NEW", "resize-op kind=kernel 64->{}", ["0", "1099511627777"], "from 1 to 1099511627776"),
    ("straggler", "RANK", "straggler remove {}", ["-1", "1048577"], "from 0 to 1048576"),
    ("scale-device", "FACTOR", "scale-device dram_bw x{}", ["0", "1001"], "from 0.001 to 1000"),
    ("scale-device", "FACTOR", "scale-device flops x{}", ["0", "1001"], "from 0.001 to 1000"),
    ("scale-device", "FACTOR", "scale-device link x{}", ["0", "1001"], "from 0.001 to 1000"),
    ("scale-device", "FACTOR", "scale-device host_link x{}", ["0", "1001"], "from 0.001 to 1000"),
];

/// Words of a usage that stand for no number.
const NO_NUMBERS: [&str; 10] = ["SHARDER", "DEVICE", "SELECTOR", "FILE", "LINK", "NAME", "OPERATOR", "T1", "T5", "T"];

#[test]
fn every_number_out_of_range_says_the_range_where_it_stands() {
    for spec in transforms() {
        let usage = spec.usage();
        let words = usage.split(|c: char| !(c.is_ascii_uppercase() || c == '-')).map(|word| word.trim_matches('-'));
        for word in words.filter(|word| !word.is_empty() && !NO_NUMBERS.contains(word)) {
            let is_tried = PARAMETERS.iter().any(|&(name, own, ..)| name == spec.name && own == word);
            assert!(is_tried, "{word} of {usage} is not tried");
        }
    }
    for (name, word, template, outside, range) in PARAMETERS {
        for number in outside.into_iter().chain(["x", "NaN", "1e999"]) {
            let line = template.replace("{}", number);
            let error = parse_step(&line).expect_err(&line);
            let start = template.find("{}").unwrap() + 1;
            // A number may be one of several in its word.
            let of_word = template[..start].rfind([' ']).map_or(1, |space| space + 2);
            assert!((of_word..=start).contains(&error.column), "{line}: {error}");
            let is_said = error.message.contains(range) || number.starts_with(char::is_alphabetic);
            assert!(is_said, "{name} {word}: {line}: {error}");
        }
    }
}

#[test]
fn every_edit_of_the_table_has_an_example_that_reads_back() {
    for spec in transforms() {
        let step = parse_step(spec.example).unwrap();
        assert_eq!(step.to_string(), spec.example);
        assert_eq!(step.name(), spec.name);
        assert!(spec.usage().starts_with(spec.name) && !spec.help.is_empty());
    }
}

#[test]
fn errors_name_the_column_and_the_nearest_word() {
    for (line, expected) in [
        ("resise-batch 4", "column 1: unknown transform `resise-batch`; did you mean `resize-batch`?"),
        ("scale fmily=gemm x2", "column 7: unknown field `fmily`; did you mean `family`?"),
        ("scale family=gem x2", "column 14: unknown family `gem`; did you mean `gemm`?"),
        ("resize-batch 0", "column 14: `0`: expected a whole number from 1 to 1073741824"),
        ("scale dur>5 x2", "column 11: `5`: expected a number with a unit (ns, us, µs, ms, s)"),
        ("remove (name~a", "column 8: expected `)`"),
        ("scale-device dram x2", "column 14: unknown figure `dram`; did you mean `dram_bw`?"),
        ("scale-device flops x0", "column 20: `x0`: expected a number from 0.001 to 1000"),
        ("accumulate 0", "column 12: `0`: expected a whole number from 1 to 256"),
        ("resize-op name~a 64-128", "column 18: `64-128`: expected OLD->NEW"),
        ("resize-op name~a 64->x", "column 22: `x`: expected a whole number from 1 to 1099511627776"),
        ("reorder name~a after name~b", "column 28: expected `before`: SELECTOR before SELECTOR"),
        ("reorder name~a before", "column 22: expected what comes after `before`: SELECTOR before SELECTOR"),
        ("reorder name~a befor name~b", "column 16: unknown word `befor`; did you mean `before`?"),
        ("replace name~a wth aten::relu", "column 16: unknown word `wth`; did you mean `with`?"),
        (
            "replace name~a with aten::rleu",
            "column 21: `aten::rleu`: expected an operator with a known cost; did you mean `aten::relu`?",
        ),
        ("parallelize name~a untill name~b", "column 20: unknown word `untill`; did you mean `until`?"),
        ("parallelize name~a until", "column 25: expected what comes after `until`: SELECTOR [until SELECTOR]"),
        ("insert aten::relu after name~b lke name~c", "column 32: unknown word `lke`; did you mean `like`?"),
        ("insert kernel a 35us on strem 7 after name~b", "column 25: `strem`: expected `stream`"),
        (
            "insert kernel a 35us on stream 9999 after name~b",
            "column 32: `9999`: expected a whole number from 0 to 9998",
        ),
        (
            "insert kernel a 35 after name~b",
            "column 17: `35`: expected a time from 0s to 10000s with its unit, e.g. 35us",
        ),
        ("scale kind=kernel", "column 18: expected SELECTOR xFACTOR, e.g. `kind=kernel x0.5`"),
        ("scale x2", "column 7: expected SELECTOR xFACTOR, e.g. `kind=kernel x0.5`"),
        ("scale kind=kernel x-1", "column 19: `x-1`: expected a number from 0 to 1000000"),
        ("scale kind=kernel & x2", "column 20: expected a term such as `name~relu`"),
        ("scale kind~kernel x2", "column 11: after `kind` expected one of = !="),
        ("scale rank=one x2", "column 12: `one`: expected a number"),
        ("scale stream=7.5 x2", "column 14: `7.5`: expected a whole number from 0"),
        ("scale name=\"open x2", "column 12: no closing quotation mark"),
        ("scale bytes>5QB x2", "column 13: `5QB`: expected a number with a unit (b, k, kb, mb, gb, tb, kib, mib, gib)"),
        ("scale phase=foward x2", "column 13: unknown phase `foward`; did you mean `forward`?"),
        ("scale predictd x2", "column 7: unknown field `predictd`; did you mean `predicted`?"),
        ("scale name~a b x2", "column 14: `b`: expected `&`, `|` or the end of the selector"),
        (
            "remove xyzzy",
            "column 8: unknown field `xyzzy`: expected one of kind, name, kernel, module, family, phase, rank, device, stream, thread, dtype, dur, bytes, predicted, measured",
        ),
        ("checkpoint", "column 11: expected a selector, e.g. `kind=kernel & name~addmm`"),
        ("scale-ranks 0", "column 13: `0`: expected a whole number from 1 to 65536"),
        ("bucket-size -4", "column 13: `-4`: expected a number from 0.001 to 1000000"),
        ("compress-comm 0.5", "column 15: `0.5`: expected a number from 1 to 10000"),
        ("mixed-precision fp8", "column 17: unknown type `fp8`; did you mean `fp16`?"),
        ("reorder name~a before nme~b", "column 23: unknown field `nme`; did you mean `name`?"),
        ("insert aten::relu befor name~a", "column 19: `befor`: expected `after`"),
        (
            "insert relux after name~a",
            "column 8: `relux`: expected `kernel` or an operator with a known cost, e.g. aten::relu",
        ),
        ("overlap-comm now", "column 14: `now` is too much: overlap-comm"),
        ("swap-gpu H100 hst x2", "column 15: unknown word `hst`; did you mean `host`?"),
    ] {
        let error = parse_step(line).unwrap_err().to_string();
        if line.starts_with("remove (") {
            assert!(error.contains("expected `)`"), "{error}");
        } else {
            assert_eq!(error, expected);
        }
    }
}

proptest! {
    #[test]
    fn any_text_is_refused_at_a_column_of_its_own_or_reads_back(text in "\\PC{0,60}") {
        for line in [text.clone(), format!("scale {text} x2"), format!("remove {text}")] {
            match parse_step(&line) {
                Ok(step) => {
                    let again = parse_step(&step.to_string()).map(|again| again.to_string());
                    prop_assert_eq!(again, Ok(step.to_string()));
                }
                Err(error) => prop_assert!((1..=line.chars().count() + 1).contains(&error.column), "{}: {}", line, error),
            }
        }
    }
}
