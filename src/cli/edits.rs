//! How edits are given on the command line, in their order: `--step`, `--batch`, `--gpu`, `--overheads`, `--scenario`.

use std::path::PathBuf;

use clap::{ArgAction, ArgMatches, Args, Command as ClapCommand, FromArgMatches};

/// One edit as given on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// A step in its one-line form.
    Step(String),
    /// A batch size; of `sweep` and `layers` also several.
    Batch(String),
    /// A scenario file whose steps follow.
    File(PathBuf),
}

impl Edit {
    /// The step that it is; `None` of a file.
    pub fn line(&self) -> Option<String> {
        match self {
            Self::Step(line) => Some(line.clone()),
            Self::Batch(size) => Some(format!("resize-batch {size}")),
            Self::File(_) => None,
        }
    }
}

/// Edits in the order they were given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScenarioArgs {
    /// In order.
    pub edits: Vec<Edit>,
    /// Go on where it would refuse: use a scenario file of another trace, replace an existing file.
    pub force: bool,
}

impl FromArgMatches for ScenarioArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut found: Vec<(usize, Edit)> = Vec::new();
        let mut gather = |id: &str, edit: &dyn Fn(&str) -> Edit| {
            let values = matches.get_many::<String>(id).into_iter().flatten();
            found.extend(matches.indices_of(id).into_iter().flatten().zip(values.map(|value| edit(value))));
        };
        gather("step", &|value| Edit::Step(value.to_owned()));
        gather("batch", &|value| Edit::Batch(value.to_owned()));
        gather("gpu", &|value| Edit::Step(format!("swap-gpu {value}")));
        gather("scenario", &|value| Edit::File(PathBuf::from(value)));
        found.sort_by_key(|&(index, _)| index);
        let overheads = matches.get_one::<String>("overheads").filter(|&source| source != "measured");
        let first = overheads.map(|source| Edit::Step(format!("overheads {source}")));
        let edits = first.into_iter().chain(found.into_iter().map(|(_, edit)| edit)).collect();
        Ok(Self { edits, force: matches.get_flag("force") })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The heading of the edits in `--help`.
const HEADING: &str = "Edits";

impl Args for ScenarioArgs {
    fn augment_args(command: ClapCommand) -> ClapCommand {
        let edit = |id: &'static str, value: &'static str, help: &'static str| {
            clap::Arg::new(id).long(id).value_name(value).help(help).action(ArgAction::Append).help_heading(HEADING)
        };
        command
            .arg(edit("step", "LINE", "An edit, e.g. \"scale kind=kernel x0.5\"; may be repeated, applied in order; `retime transforms` lists them"))
            .arg(edit("batch", "N", "Short for --step \"resize-batch N\"; with `sweep` and `layers` also a range, 64..4096"))
            .arg(edit("gpu", "NAME", "Short for --step \"swap-gpu NAME\""))
            .arg(clap::Arg::new("overheads").long("overheads").value_name("SOURCE").help_heading(HEADING).help(
                "Host overheads T1 to T5: measured (each call's own), mean (of its operator), or a file of \
                     `overheads --save`; short for a first --step \"overheads SOURCE\"",
            ))
            .arg(edit("scenario", "FILE", "The steps of a scenario file; one made for another trace needs --force"))
            .arg(
                clap::Arg::new("force")
                    .long("force")
                    .help_heading(HEADING)
                    .action(ArgAction::SetTrue)
                    .help("Use a scenario file of another trace and say what matched; replace an existing file"),
            )
    }

    fn augment_args_for_update(command: ClapCommand) -> ClapCommand {
        Self::augment_args(command)
    }
}
