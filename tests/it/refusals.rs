//! What cannot be meant is refused, with the reason, and nothing is written.

use std::fs;

use assert_cmd::Command;

use crate::support::sample;

const CPU: &str = "mlp-b256-fp32-cpu.kineto.json.gz";

/// The exit status, and what is written to both outputs.
fn ran(arguments: &[&str]) -> (i32, String) {
    let output = Command::cargo_bin("retime").unwrap().args(arguments).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout) + &text(&output.stderr))
}

fn cpu() -> String {
    sample(CPU).to_str().unwrap().to_owned()
}

#[test]
fn commas_stand_between_groups_of_three_digits_only() {
    for wrong in ["accumulate 1,2", "resize-batch 1,2", "scale-ranks 1,2", "resize-batch ,512", "resize-batch 1024,512"]
    {
        let (status, said) = ran(&["simulate", &cpu(), "--step", wrong]);
        assert!(status != 0 && said.contains("expected a whole number"), "{wrong}: {said}");
    }
    assert_eq!(ran(&["simulate", &cpu(), "--step", "resize-batch 1,024"]).0, 0);
}

#[test]
fn latencies_are_times() {
    for wrong in ["nan", "inf", "-1", "1e300"] {
        let (status, said) = ran(&["layers", &cpu(), &format!("--latency-ms={wrong}")]);
        assert!(status == 2 && said.contains("a time in ms"), "{wrong}: {said}");
    }
}

#[test]
fn made_up_traces_do_not_come_between_files_that_are_there() {
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("rank0.json.gz");
    fs::copy(sample(CPU), &own).unwrap();
    let generate = |at: &std::path::Path| ran(&["generate", "--ranks", "2", "-o", at.to_str().unwrap()]);
    let (status, said) = generate(folder.path());
    assert!(status == 1 && said.contains("new or empty folder"), "{said}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    let (status, said) = generate(&own);
    assert!(status == 1 && said.contains("is no folder"), "{said}");
    assert_eq!(generate(&folder.path().join("new")).0, 0);
}

#[test]
fn a_file_of_facts_that_is_none_is_not_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let facts = folder.path().join("facts.toml");
    fs::write(&facts, format!("\n{{\"a\": {}}}", "x".repeat(1 << 20))).unwrap();
    let (status, said) = ran(&["simulate", &cpu(), "--facts", facts.to_str().unwrap()]);
    assert!(status == 1 && said.contains("line 2") && said.len() < 500, "{}", &said[..said.len().min(1000)]);
}

#[test]
fn a_line_of_a_script_that_asks_for_more_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("s.retime");
    fs::write(&script, "export\n").unwrap();
    let (status, said) = ran(&["run", script.to_str().unwrap(), &cpu()]);
    assert!(status == 1 && said.contains("more is asked for"), "{said}");
}

#[test]
fn a_script_that_leaves_without_saving_what_it_edited_has_to_say_so() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("s.retime");
    let left = |line: &str| {
        fs::write(&script, format!("step scale * x0.5\n{line}\nstep scale * x0.25\n")).unwrap();
        ran(&["run", script.to_str().unwrap(), &cpu()])
    };
    let (status, said) = left("quit");
    assert!(status == 1 && said.contains("1 edit is not saved") && said.contains("`quit!` asks nothing"), "{said}");
    assert!(!said.contains("x0.25"), "nothing is played behind a question: {said}");
    assert_eq!(left("quit!").0, 0);
}

#[test]
fn nothing_of_a_script_is_played_behind_its_quit() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    fs::write(place("inner.retime"), "quit!\nstep scale * x0.5\n").unwrap();
    fs::write(place("s.retime"), format!("source {}\nexpect gain > 5%\n", place("inner.retime").display())).unwrap();
    for script in ["inner.retime", "s.retime"] {
        let (status, said) = ran(&["run", place(script).to_str().unwrap(), &cpu()]);
        assert!(status == 0 && !said.contains("scale") && !said.contains("expect"), "{said}");
    }
}

#[test]
fn an_edit_of_other_steps_than_the_modelled_one_is_called_that() {
    let event = |cat: &str, name: &str, tid: u32, ts: u32, dur: u32, args: &str| {
        format!(
            "{{\"ph\":\"X\",\"cat\":\"{cat}\",\"name\":\"{name}\",\"pid\":1,\"tid\":{tid},\"ts\":{ts},\"dur\":{dur},\"args\":{{{args}}}}}"
        )
    };
    let mut events = Vec::new();
    for step in 0..3 {
        let at = 1000 + 200 * step;
        events.push(event("user_annotation", &format!("ProfilerStep#{step}"), 1, at, 190, ""));
        for (number, name) in
            (0..2).map(|number| (2 * step + number, if number + step == 2 && step == 1 { "only" } else { "gemm" }))
        {
            let start = at + 5 + 60 * (number % 2);
            let args = format!("\"correlation\":{}", number + 1);
            events.push(event("cuda_runtime", "cudaLaunchKernel", 1, start, 5, &args));
            let args = format!("{args},\"device\":0,\"stream\":7");
            events.push(event("kernel", name, 7, start + 8, 15, &args));
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.json");
    fs::write(&trace, format!("{{\"traceEvents\":[{}]}}", events.join(","))).unwrap();
    let trace = trace.to_str().unwrap();
    let at = |iteration: &str| ran(&["simulate", trace, "--iteration", iteration, "--step", "scale name=only x2"]).1;
    let (own, other) = (at("1"), at("2"));
    assert!(own.contains("1 task ×2") && !own.contains("no effect"), "{own}");
    assert!(other.contains("0 tasks ×2") && other.contains("no effect: what matches is of other steps"), "{other}");
}

#[test]
#[cfg(unix)]
fn ranks_are_not_written_beside_a_device() {
    let rank = |rank: u32| sample(&format!("dlrm-ddp-b128-fp32-cpu-ws2-r{rank}.kineto.json.gz")).display().to_string();
    let (status, said) = ran(&["export", &rank(0), &rank(1), "--force", "-o", "/dev/null"]);
    assert!(status == 1 && said.contains("is no regular file"), "{said}");
}

#[test]
fn a_knob_of_a_sweep_is_named_once() {
    let knob = |name: &'static str, values: &'static str| ["--knob", name, values];
    let cases: [(&str, Vec<&str>); 5] = [
        ("`flops`", [knob("flops", "0.5,1"), knob("flops", "0.25,1")].concat()),
        ("`batch`", [&["--batch", "64,128"][..], &knob("batch", "256,512")].concat()),
        ("--batch", vec!["--batch", "64,128", "--batch", "256..512"]),
        ("`resize-batch`", [knob("batch", "64,128"), knob("resize-batch", "256,512")].concat()),
        ("`alpha family=gemm`", [knob("family=gemm", "1,2"), knob("alpha family=gemm", "0.5,1")].concat()),
    ];
    for (named, arguments) in cases {
        let (status, said) = ran(&[&["sweep", &cpu()], &arguments[..]].concat());
        assert!(status == 2 && said.contains(&format!("{named} is there twice")), "{arguments:?}: {said}");
    }
    let different = [knob("flops", "0.5,1"), knob("dram_bw", "0.5,1")].concat();
    assert_eq!(ran(&[&["sweep", &cpu()], &different[..]].concat()).0, 0);
}
