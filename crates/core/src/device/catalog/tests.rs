use super::*;
use crate::device::Precision;

fn builtin() -> Catalog {
    Catalog::builtin().unwrap()
}

fn user(text: &str) -> Result<Catalog, CatalogError> {
    Catalog::with_files(&[("mine.toml".to_owned(), text.to_owned())])
}

#[test]
fn every_builtin_figure_names_its_source() {
    for device in builtin().iter() {
        assert!(device.sources.len() >= 10, "{}", device.id);
        for (key, source) in &device.sources {
            assert!(!source.contains(".toml"), "{}.{key} has no source", device.id);
        }
    }
}

#[test]
fn names_drivers_report_are_recognised() {
    let catalog = builtin();
    for (recorded, id) in [
        ("NVIDIA H100 80GB HBM3", "H100-SXM"),
        ("NVIDIA H100 PCIe", "H100-PCIe"),
        ("NVIDIA H200", "H200"),
        ("NVIDIA B200", "B200"),
        ("AMD Instinct MI300X VF", "MI300X"),
        ("AMD Instinct MI250X/MI250", "MI250X"),
        ("AMD Instinct MI210", "MI210"),
        ("Tesla V100-SXM2-32GB", "V100-32"),
        ("Tesla V100-SXM2-16GB", "V100"),
        ("Tesla V100-DGXS-32GB", "V100-32"),
        ("NVIDIA A100-PG509-200", "A100-40"),
        ("NVIDIA A100-SXM4-80GB", "A100-80"),
        ("NVIDIA A100 80GB PCIe", "A100-80-PCIe"),
        ("NVIDIA GeForce RTX 2080 Ti", "RTX-2080-Ti"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA L40", "L40"),
        ("NVIDIA RTX A6000", "RTX-A6000"),
        ("NVIDIA H100 NVL", "H100-NVL"),
        ("NVIDIA GeForce RTX 5090", "RTX-5090"),
        ("AMD Instinct MI325X", "MI325X"),
        ("AMD Instinct MI355X", "MI355X"),
        ("NVIDIA L4", "L4"),
        ("Tesla P40", "P40"),
    ] {
        assert_eq!(catalog.recognise(recorded).map(|device| device.id.as_str()), Some(id), "{recorded}");
    }
    assert!(catalog.recognise("AMD Radeon Graphics").is_none());
}

#[test]
fn every_device_the_issue_names_is_found_by_its_usual_name() {
    let catalog = builtin();
    for name in
        "TITAN Xp,P4,P40,P100,GV100,V100,T4,Quadro RTX 6000,Quadro RTX 8000,M60,A100-40,A100-80,A10,A40,L4,L40S,\
                 H100 SXM,H100 PCIe,h100,H200,B200,GB200,MI100,MI210,MI250,MI300X,RTX 2080 Ti,RTX 3090,RTX 4090,\
                 Xeon Gold 6230,Xeon E5-2680 v3,generic,BLIMP,Big Red II,Karst,Jetstream"
            .split(',')
    {
        assert!(catalog.find(name.trim()).is_ok(), "{name}");
    }
}

#[test]
fn ridge_points_match_published_figures() {
    let ridge = |name: &str| {
        let device = builtin().find(name).unwrap().clone();
        device.peak_rate(Precision::Fp32).0 / device.dram_bandwidth.0
    };
    assert!((ridge("V100") - 17.44).abs() < 0.01);
    assert!((ridge("P4") - 28.65).abs() < 0.01);
    assert!((ridge("M60") - 30.0).abs() < 0.01);
}

#[test]
fn an_unknown_name_lists_the_nearest() {
    let error = builtin().find("H10").unwrap_err();
    assert!(error.nearest.iter().any(|id| id.starts_with("H100")), "{error}");
    assert_eq!(builtin().find("MI300Z").unwrap_err().nearest[0], "MI300X");
}

#[test]
fn a_hypothetical_device_inherits_and_its_measured_bandwidth_follows() {
    let catalog = user("[Fast]\ninherits = \"V100\"\n[Fast.figures]\ndram_gb_s = 1800\n").unwrap();
    let (fast, base) = (catalog.find("fast").unwrap(), catalog.find("V100").unwrap());
    assert_eq!(fast.sm_count, base.sm_count);
    assert!((fast.bandwidth().0 / base.bandwidth().0 - 2.0).abs() < 1e-9);
    let (quick, slow) = (fast.dram_curve.unwrap().time_us(4e9), base.dram_curve.unwrap().time_us(4e9));
    assert!((slow / quick - 2.0).abs() < 0.01);
    assert_eq!(fast.sources["dram_gb_s"], "mine.toml");
}

#[test]
fn a_user_file_replaces_a_builtin_device() {
    let catalog = user("[Mine]\ninherits = \"H200\"\n[Mine.figures]\nmemory_gib = 10\n").unwrap();
    assert_eq!(catalog.find("mine").unwrap().memory.0, 10 << 30);
    let text = "[H200]\ninherits = \"H100-SXM\"\nrecorded_as = [\"nvidia h200\"]\n[H200.figures]\nmemory_gib = 7\n";
    assert_eq!(user(text).unwrap().find("H200").unwrap().memory.0, 7 << 30);
}

#[test]
fn errors_name_line_and_key() {
    let messages: Vec<String> = [
        "[X]\ninherits = \"V100\"\nspeed = 3\n",
        "[X]\ninherits = \"V100\"\n[X.figures]\ndram_gb_s = 0\n",
        "[X]\ninherits = \"V100\"\n[X.figures]\ndram_gb_s = nan\n",
        "[X]\ninherits = \"V100\"\n[X.figures]\nsm_count = 1.5\n",
        "[X]\ninherits = \"V100\"\n[X.figures]\ndram_measured_gb_s = 1000\n",
        "[X]\ninherits = \"Y\"\n[Y]\ninherits = \"X\"\n",
        "[X]\ninherits = \"V1OO\"\n",
        "[X]\nkind = \"gpu\"\n[X.peak_tflops]\nfp32 = 1\n",
        "[X]\ninherits = \"V100\"\n[X.peak_tflops]\nfp33 = 1\n",
        "[X]\ninherits = \"V100\"\n[X.sources]\nfoo = \"bar\"\n",
        "[X\n",
    ]
    .iter()
    .map(|text| user(text).unwrap_err().to_string())
    .collect();
    let expected = [
        ("mine.toml:3:", "speed"),
        ("mine.toml:4:", "X.dram_gb_s is 0: expected a number from 1e-6 to 1e6"),
        ("mine.toml:4:", "NaN"),
        ("mine.toml:4:", "X.sm_count is 1.5: expected a whole number"),
        ("mine.toml:1:", "X.dram_measured_gb_s is 1000: expected no more than its dram_gb_s, 900"),
        ("mine.toml:4:", "X → Y → X"),
        ("mine.toml:2:", "`V1OO`"),
        ("mine.toml:1:", "X has no sm_count"),
        ("mine.toml:4:", "fp33"),
        ("mine.toml:4:", "foo"),
        ("mine.toml:1:", ""),
    ];
    for (message, (place, part)) in messages.iter().zip(expected) {
        assert!(message.starts_with(place) && message.contains(part), "{message}");
    }
}

#[test]
fn other_names_that_stood_for_another_device_are_told() {
    let file = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    let mine = file("mine.toml", "[Aaa]\ninherits = \"V100\"\naliases = [\"H100\", \"A100-80\", \"aaa-one\"]\n");
    let later = file("later.toml", "[Zzz]\ninherits = \"V100\"\naliases = [\"aaa-one\"]\n");
    let files = [mine, later];
    let catalog = Catalog::with_files(&files).unwrap();
    for (name, id) in [("H100", "Aaa"), ("A100-80", "A100-80"), ("aaa-one", "Zzz")] {
        assert_eq!(catalog.find(name).unwrap().id, id, "{name}");
    }
    assert_eq!(
        Catalog::replaced(&files),
        [
            "mine.toml:1: the name `H100` of H100-SXM: it is that of Aaa now",
            "mine.toml:1: the other name `A100-80` of Aaa: it is a device of its own",
            "later.toml:1: the name `aaa-one` of Aaa: it is that of Zzz now",
        ]
    );
    let again = file("mine.toml", "[H100-SXM]\ninherits = \"H100-SXM\"\naliases = [\"H100\", \"my-own\"]\n");
    assert!(Catalog::replaced(&[again]).is_empty());
}

#[test]
fn data_movement_time_never_falls_with_size() {
    for device in builtin().iter() {
        let Some(curve) = &device.dram_curve else { continue };
        let times: Vec<f64> = (0..400).map(|i| curve.time_us(2f64.powf(f64::from(i) / 10.0))).collect();
        assert!(times.windows(2).all(|pair| pair[0] <= pair[1] + 1e-9), "{}", device.id);
    }
}

#[test]
fn a_device_of_the_same_name_may_change_some_figures_of_the_builtin_one() {
    let text = "[L4]\ninherits = \"L4\"\n[L4.figures]\nhost_link_gb_s = 9\n".to_owned();
    let catalog = Catalog::with_files(&[("mine.toml".to_owned(), text)]).unwrap();
    let builtin = Catalog::builtin().unwrap();
    let (mine, old) = (catalog.find("NVIDIA L4").unwrap(), builtin.find("L4").unwrap());
    assert!((mine.host_link.0 - 9e9).abs() < 1.0);
    assert_eq!((mine.sm_count, &mine.recorded_as), (old.sm_count, &old.recorded_as));
}

#[test]
fn what_a_device_inherits_from_is_known_nearest_first() {
    let catalog = Catalog::builtin().unwrap();
    assert_eq!(catalog.find("A100-80-PCIe").unwrap().lineage, ["A100-80", "A100-40"]);
    assert!(catalog.find("V100").unwrap().lineage.is_empty());
}

#[test]
fn collectives_in_a_device_file_are_checked() {
    let text = "[X]\ninherits = \"L4\"\n[[X.curve]]\ncollective = \"all-reduce\"\nranks = 2\nbytes = [1, 2]\nus = [2, 1]\nerror = 0\nn = 2\nsource = \"s\"\n";
    let error = Catalog::with_files(&[("mine.toml".to_owned(), text.to_owned())]).unwrap_err().to_string();
    assert!(error.contains("X.curve") && error.contains("never fall"), "{error}");
}

#[test]
fn a_device_may_inherit_by_any_of_a_known_device_s_names() {
    let of = |parent: &str| {
        user(&format!("[Mine]\ninherits = \"{parent}\"\n")).map(|all| all.find("Mine").unwrap().lineage.clone())
    };
    for name in ["H100-SXM", "H100", "h100sxm"] {
        assert_eq!(of(name).unwrap(), ["H100-SXM"], "{name}");
    }
    let message = of("H10").unwrap_err().to_string();
    assert!(message.starts_with("mine.toml:2") && message.contains("nearest: H100"), "{message}");
}

#[test]
fn a_list_of_devices_says_how_devices_are_written() {
    let message = user("[[device]]\nname = \"Mine\"\n").unwrap_err().to_string();
    assert!(message.contains("[[device]]") && message.contains("[NAME.figures]"), "{message}");
}

#[test]
fn the_readme_s_device_file_can_be_read() {
    let readme = include_str!("../../../../../README.md");
    let (_, block) = readme.split_once("```toml\n").unwrap();
    let (text, _) = block.split_once("```").unwrap();
    let mine = user(text).unwrap().find("H100-overclocked").unwrap().clone();
    let known = builtin().find("H100").unwrap().clone();
    assert!(mine.clock_mhz > known.clock_mhz && mine.lineage == ["H100-SXM"]);
}

#[test]
fn what_is_recorded_as_a_device_is_not_one_that_inherits_from_it() {
    for parent in ["MI300X", "V100", "H100-SXM", "L4"] {
        let builtin = Catalog::builtin().unwrap();
        let known = builtin.find(parent).unwrap();
        let mine =
            user(&format!("[{parent}-z]\ninherits = \"{parent}\"\n[{parent}-z.figures]\ndram_gb_s = 100\n")).unwrap();
        for recorded in known.recorded_as.iter().chain([&known.name]) {
            assert_eq!(mine.recognise(recorded).unwrap().id, builtin.recognise(recorded).unwrap().id, "{recorded}");
        }
        let of = |catalog: &Catalog| catalog.alike(known.sm_count, known.memory).map(|device| device.id.clone());
        assert_eq!(of(&mine), of(&builtin), "{parent}");
        // An export of a prediction for it names it.
        let own = mine.find(&format!("{parent}-z")).unwrap();
        assert_eq!(mine.recognise(&own.name).unwrap().id, own.id);
    }
}

#[test]
fn a_device_that_two_files_define_is_told_unless_the_later_adds_to_it() {
    let file = |name: &str, parent: &str| {
        (name.to_owned(), format!("[Mine]\ninherits = \"{parent}\"\n[Mine.figures]\ndram_gb_s = 100\n"))
    };
    let told = Catalog::replaced(&[file("a.toml", "V100"), file("b.toml", "A100-80")]);
    assert_eq!(told, ["a.toml:1: Mine is defined anew in b.toml:1, whose figures hold"]);
    assert!(Catalog::replaced(&[file("a.toml", "V100"), file("b.toml", "Mine")]).is_empty());
    // The user's own figures of a device that is built in are meant.
    assert!(Catalog::replaced(&[("a.toml".to_owned(), "[V100]\ninherits = \"V100\"\n".to_owned())]).is_empty());
}
