//! What an input may cost: memory, processor time and stack at sizes nobody records, and what is refused instead.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use retime::session::synthetic::{JobSpec, Machine, Network, SyntheticJob};

#[cfg(all(feature = "tui", target_os = "linux", target_env = "gnu"))]
use crate::support::pty::Session;
use crate::support::{engine, sample};

fn retime(arguments: &[&str], trace: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_retime")).args(arguments).arg(trace).output().unwrap()
}

/// With at most so many bytes of address space and seconds of the processor.
#[cfg(target_os = "linux")]
fn within(mebibytes: u32, seconds: u32, arguments: &[&str], trace: &Path) -> Output {
    let limits = format!("ulimit -v {}; ulimit -t {seconds}; exec \"$0\" \"$@\"", mebibytes * 1024);
    let mut command = Command::new("sh");
    command.args(["-c", &limits, env!("CARGO_BIN_EXE_retime")]).args(arguments).arg(trace);
    command.env("RAYON_NUM_THREADS", "2").output().unwrap()
}

/// A trace of events that `event` writes.
fn written(folder: &Path, count: u32, event: impl Fn(u32) -> String) -> PathBuf {
    let mut text = String::from("{\"traceEvents\": [\n");
    for number in 0..count {
        let separator = if number + 1 < count { ",\n" } else { "]}" };
        write!(text, "{}{separator}", event(number)).unwrap();
    }
    let path = folder.join(format!("{count}.json"));
    fs::write(&path, text).unwrap();
    path
}

fn operator(thread: u32, start: u32, length: u32, id: u32) -> String {
    format!(
        r#"{{"ph":"X","cat":"cpu_op","name":"aten::relu","pid":1,"tid":{thread},"ts":{start},"dur":{length},"args":{{"External id":{id}}}}}"#
    )
}

#[test]
#[cfg(all(feature = "tui", target_os = "linux"))]
fn a_script_of_many_steps_takes_no_time_to_speak_of() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("many.txt");
    let open = sample("mlp-b256-fp32-cpu.kineto.json.gz");
    let steps = "step scale name~mm x0.99\nstep scale name~mm x1.01\n".repeat(500);
    fs::write(&script, format!("open {}\n{steps}", open.display())).unwrap();
    let output = within(4000, 60, &["run", "--json"], &script);
    assert!(output.status.success(), "{:?} {}", output.status, String::from_utf8_lossy(&output.stderr));
}

#[test]
#[cfg(target_os = "linux")]
fn a_table_of_many_layers_takes_memory_in_proportion() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("many.csv");
    fs::write(&path, format!("type,input\nrelu,8x64x64x64\n{}", "relu\n".repeat(40_000))).unwrap();
    let output = within(600, 60, &["info", "--json"], &path);
    assert!(output.status.success(), "{:?} {}", output.status, String::from_utf8_lossy(&output.stderr));
}

#[test]
#[cfg(target_os = "linux")]
fn a_thread_for_every_event_takes_no_memory_to_speak_of() {
    let folder = tempfile::tempdir().unwrap();
    for (threads, mebibytes) in [(24_000, 700), (200_000, 1500)] {
        let path = written(folder.path(), threads, |number| operator(number, 100 + number, 5, number));
        for command in ["simulate", "breakdown", "path"] {
            let output = within(mebibytes, 60, &[command, "--json"], &path);
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{threads} threads, {command}: {:?} {said}", output.status);
        }
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_stream_for_every_kernel_takes_time_in_proportion() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path(), 100_000, |number| {
        format!(
            r#"{{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":{number},"ts":{number},"dur":5,"args":{{"stream":{number},"device":0,"correlation":{}}}}}"#,
            number + 1
        )
    });
    let output = within(1500, 12, &["breakdown", "--json"], &path);
    assert!(output.status.success(), "{:?} {}", output.status, String::from_utf8_lossy(&output.stderr));
}

/// A launch of the kernel `name`, and the kernel.
#[cfg(target_os = "linux")]
fn launched(number: u32, name: &str) -> String {
    let (call, at) = (number + 1, 10 * number);
    let launch = format!(
        r#"{{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":{at},"dur":1,"args":{{"correlation":{call}}}}}"#
    );
    let kernel = format!(
        r#"{{"ph":"X","cat":"kernel","name":"{name}","pid":0,"tid":7,"ts":{},"dur":3,"args":{{"stream":7,"device":0,"correlation":{call}}}}}"#,
        at + 2
    );
    format!("{launch},\n{kernel}")
}

#[test]
#[cfg(target_os = "linux")]
fn a_graph_of_many_kernels_takes_time_in_proportion() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path(), 100_000, |number| {
        if number == 0 {
            return r#"{"ph":"X","cat":"cuda_runtime","name":"cudaGraphLaunch","pid":1,"tid":1,"ts":0,"dur":5,"args":{"correlation":1}}"#.to_owned();
        }
        format!(
            r#"{{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":{},"dur":2,"args":{{"stream":7,"device":0,"correlation":1}}}}"#,
            10 + 3 * number
        )
    });
    let output = within(1500, 12, &["info", "--json"], &path);
    assert!(output.status.success(), "{:?} {}", output.status, String::from_utf8_lossy(&output.stderr));
}

#[test]
#[cfg(target_os = "linux")]
fn a_name_for_every_kernel_takes_time_in_proportion_in_tables_of_layers() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path(), 100_000, |number| launched(number, &format!("kernel_{number}")));
    let output = within(3000, 20, &["layers", "--json"], &path);
    assert!(output.status.success(), "{:?} {}", output.status, String::from_utf8_lossy(&output.stderr));
}

/// Seconds of the processor that an edit of a job takes, of `ranks` ranks of which no two are alike.
#[cfg(unix)]
fn seconds_for(ranks: u32) -> f64 {
    let engine = engine();
    let machine = Machine::of(&engine, "V100").unwrap();
    let spec = JobSpec { ranks, tables_per_rank: 2, steps: 2, ..JobSpec::default() };
    let folder = tempfile::tempdir().unwrap();
    SyntheticJob::draw(spec, Network::default(), machine.device.memory.0).write(folder.path(), machine).unwrap();
    let program = env!("CARGO_BIN_EXE_retime");
    let line = format!(
        "{program} simulate --json --step 'resize-batch 128' {} >out || exit 1; times",
        folder.path().display()
    );
    let output = Command::new("sh").current_dir(folder.path()).args(["-c", &line]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let shown = fs::read_to_string(folder.path().join("out")).unwrap();
    assert_eq!(shown.matches("\"comes_last\"").count(), ranks as usize, "none stands for another");
    // The shell's own times, then those of what it ran, such as `0m1.250s`.
    let times = String::from_utf8(output.stdout).unwrap();
    let (minutes, seconds) = times.lines().nth(1).unwrap().split(' ').next().unwrap().split_once('m').unwrap();
    minutes.parse::<f64>().unwrap() * 60.0 + seconds.trim_end_matches('s').parse::<f64>().unwrap()
}

#[test]
#[cfg(unix)]
fn ranks_that_differ_take_time_in_proportion() {
    let least = |ranks| (0..2).map(|_| seconds_for(ranks)).reduce(f64::min).unwrap();
    // In proportion it is 4 times as long, and by the square 16 times: what else the machine does lies well between the two.
    let (some, four_times) = (least(300), least(1200));
    assert!(four_times <= 8.0 * some, "300 ranks take {some} s, 1200 take {four_times} s");
}

/// Steps of a hundred operators each.
fn long_recording(folder: &Path, steps: u32) -> PathBuf {
    written(folder, 101 * steps, |number| {
        let (step, start) = (number / 101, 1000 + 10 * number);
        if number % 101 == 0 {
            return format!(
                r#"{{"ph":"X","cat":"user_annotation","name":"ProfilerStep#{step}","pid":1,"tid":2,"ts":{start},"dur":1005}}"#
            );
        }
        operator(2, start, 5, number)
    })
}

#[test]
fn a_long_recording_is_not_refused_for_steps_that_are_not_modelled() {
    let folder = tempfile::tempdir().unwrap();
    let path = long_recording(folder.path(), 4000);
    let output = retime(&["simulate", "--max-memory", "180MiB"], &path);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let all = retime(&["simulate", "--max-memory", "60MiB"], &path);
    assert!(String::from_utf8_lossy(&all.stderr).contains("needs about"), "what does not fit is refused");
}

#[test]
fn a_table_that_unpacks_to_more_layers_than_fit_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let pack = |name: &str, layers: usize| {
        let path = folder.path().join(name);
        let mut packed = flate2::write::GzEncoder::new(fs::File::create(&path).unwrap(), flate2::Compression::fast());
        let text = format!("type,input,filters\nlinear,1x3,5\n{}", "relu,,\n".repeat(layers));
        packed.write_all(text.as_bytes()).unwrap();
        packed.finish().unwrap();
        path
    };
    for (layers, is_read) in [(20_000, false), (1_000_000, false), (100, true)] {
        let path = pack(&format!("{layers}.csv.gz"), layers);
        let output = retime(&["info", "--max-memory", "200MiB"], &path);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.success(), is_read, "{layers}: {said}");
        assert_eq!(said.contains("MiB may be used"), !is_read, "{layers}: {said}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn operators_nested_as_deep_as_there_are_take_time_in_proportion() {
    let folder = tempfile::tempdir().unwrap();
    let depth = 150_000;
    let path = written(folder.path(), depth, |number| operator(1, 100 + number, 2 * (depth - number) + 1, number));
    let out = folder.path().join("out.json");
    let export = ["export", "--out", out.to_str().unwrap()];
    for arguments in [&["layers", "--json"][..], &["overheads", "--json"], &export] {
        let output = within(4000, 20, arguments, &path);
        assert!(output.status.success(), "{arguments:?}: {:?}", output.status);
    }
}

#[test]
fn what_needs_more_memory_than_may_be_held_is_refused_with_how_much() {
    let trace = sample("dlrm-ddp-b256-on-v100.predicted.json.gz");
    let output = retime(&["simulate", "--max-memory", "1MB"], &trace);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("needs about") && said.contains("976.6 KiB may be used"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");

    let steps = ["simulate", "--max-memory", "2GiB", "--step", "accumulate 256", "--step", "accumulate 256"];
    let output = retime(&steps, &trace);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), said.matches("added tasks would need about").count()), (Some(1), 1), "{said}");
    assert!(said.contains("GiB: more than a quarter of --max-memory, 2.00 GiB"), "{said}");
    assert!(retime(&steps[..5], &trace).status.success(), "the first alone is done");
}

#[test]
#[cfg(all(feature = "tui", target_os = "linux", target_env = "gnu"))]
fn undo_returns_the_memory_that_edits_held() {
    let mut session = Session::open();
    let before = session.held();
    session.press(&":accumulate 4\r".repeat(4));
    session.wait_for("4 accumulate 4");
    session.wait_until("the edits to be worked out", || session.contents().contains("88.08 s"));
    let edited = session.held();
    session.press("uuuu");
    session.wait_for("(no edits)");
    let most = before + (edited - before) / 4;
    let wanted = format!("at most {} MiB: {} before, {} with edits", most >> 20, before >> 20, edited >> 20);
    session.wait_until(&wanted, || session.held() <= most);
    session.leave();
}

#[test]
#[cfg(target_os = "linux")]
fn what_the_system_says_is_said_once() {
    let said = String::from_utf8(retime(&["info"], Path::new("/proc/self/mem")).stderr).unwrap();
    assert_eq!(said.matches("os error").count(), 1, "{said}");
}

#[test]
fn one_bad_file_does_not_refuse_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    written(folder.path(), 3, |number| operator(1, 10 * number, 5, number));
    fs::write(folder.path().join("bad.json.gz"), b"\x1f\x8b\x99").unwrap();
    fs::write(folder.path().join("worse.json"), [0xff; 100]).unwrap();
    let output = retime(&["simulate"], folder.path());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    assert_eq!(said.matches("unreadable-file").count(), 2, "{said}");
}

#[test]
fn a_log_says_how_long_each_part_took() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let trace = sample("mlp-b256-fp32-cpu.kineto.json.gz");
    let output = retime(&["simulate", "--step", "scale * x0.5", "--log", log.to_str().unwrap()], &trace);
    assert!(output.status.success());
    let text = fs::read_to_string(&log).unwrap();
    for part in ["load", "build", "resolve", "simulate"] {
        assert!(text.lines().any(|line| line.contains(&format!(" info    {part} took "))), "{part}: {text}");
    }
    let full = retime(&["info", "--log", "/dev/full"], &trace);
    let said = String::from_utf8(full.stderr).unwrap();
    assert!(!cfg!(target_os = "linux") || (!full.status.success() && said.contains("cannot be written to")), "{said}");
    let failed = retime(&["simulate", "--log", log.to_str().unwrap()], &folder.path().join("missing.json"));
    let text = fs::read_to_string(&log).unwrap();
    assert!(!failed.status.success() && text.contains(" error   "), "{text}");
}

#[test]
fn a_log_is_not_written_over() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("x.log");
    let path = log.to_str().unwrap();
    let trace = sample("mlp-b256-fp32-cpu.kineto.json.gz");
    let output = retime(&["export", "-o", path, "--log", path, "--force"], &trace);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && said.contains("is the log of what is done (--log)"), "{said}");
    assert!(fs::read_to_string(&log).unwrap().contains(" info    retime "));
}

#[test]
#[cfg(unix)]
fn a_log_is_no_pipe_that_nobody_reads() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let trace = sample("mlp-b256-fp32-cpu.kineto.json.gz");
    let output = retime(&["info", "--log", pipe.to_str().unwrap()], &trace);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && said.contains("is a pipe"), "{said}");
}

#[test]
#[cfg(target_os = "linux")]
fn an_edit_of_convolutions_asks_nothing_of_operators_that_launch_none() {
    let folder = tempfile::tempdir().unwrap();
    let depth = 100_000;
    let path = written(folder.path(), depth, |number| operator(1, 100 + number, 2 * (depth - number) + 1, number));
    let output = within(4000, 20, &["simulate", "--step", "conv-algorithm best"], &path);
    assert!(output.status.success(), "{:?}", output.status);
}

#[test]
#[cfg(all(feature = "tui", target_os = "linux"))]
fn a_script_that_comes_through_a_pipe_is_played() {
    let mut program = assert_cmd::Command::cargo_bin("retime").unwrap();
    program.args(["run", "/dev/stdin"]).arg(sample("mlp-b256-fp32-cpu.kineto.json.gz"));
    let ended = program.write_stdin("expect iteration < 1ns\n").assert().code(3);
    let said = String::from_utf8(ended.get_output().stdout.clone()).unwrap();
    assert!(said.contains("FAILS"), "{said}");
}

#[test]
fn a_made_up_job_that_memory_does_not_hold_is_refused_before_it_is_begun() {
    let folder = tempfile::tempdir().unwrap();
    let made = folder.path().join("job");
    let made = made.to_str().unwrap();
    let arguments = ["generate", "-o", made, "--ranks", "2", "--layers", "100000", "--max-memory", "256MiB"];
    let output = Command::new(env!("CARGO_BIN_EXE_retime")).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("GiB of memory, 256.0 MiB may be used") && !Path::new(made).exists(), "{said}");
}

/// Between two kernels of several streams there are as many ways through what was removed as products of what is between them.
#[test]
#[cfg(target_os = "linux")]
fn an_export_looks_for_launches_once_through_what_was_removed() {
    let folder = tempfile::tempdir().unwrap();
    for phase in ["forward", "backward"] {
        let (out, step) = (folder.path().join(format!("{phase}.json")), format!("remove phase={phase}"));
        let arguments = ["export", "--step", &step, "-o", out.to_str().unwrap()];
        let output = within(4096, 60, &arguments, &sample("h200/resnet50-b32-fp32-cuda.kineto.json.gz"));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(out.exists());
    }
}
