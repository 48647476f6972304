//! All state of the screen, and the moves that several commands share.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use ratatui::layout::{Rect, Size};

use crate::session::{Algorithm, Engine, Played, SavedSession, Verdict};
use retime_core::device::Catalog;
use retime_core::graph::BuildOptions;
use retime_core::scenario::Scenario;
use retime_core::trace::OpenOptions;

use super::command::{CommandResult, Pane};
use super::effect::Effect;
use super::key::Keymap;
use super::layout::{self, Regions, Wanted};
use super::load::{Open, device_lines};
use super::loading::Loading;
use super::message::{Level, Message};
use super::overlay::Overlay;
use super::runner::{Recording, Request};
use super::script::Script;
use super::theme::{Depth, Theme};
use super::timeline::{Extent, Scene, Timeline, short_name};
use super::views::{self, View, ribbon};
use super::workspace::Workspace;

/// Which part of the screen has the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Focus {
    /// The open view.
    View,
    /// The scenario's steps.
    Scenario,
}

/// Whether sessions save themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saving {
    /// They were not asked to.
    Off,
    On,
    /// They were, and cannot.
    Failed,
}

/// Whether tracks are drawn below the timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tracks {
    /// Where the lanes have room enough without them.
    WhereRoom,
    /// As far as the least of lanes stays.
    Always,
    /// Not.
    Never,
}

/// The last press of the mouse button.
#[derive(Clone, Copy, Debug)]
pub struct MousePress {
    /// Where it is now.
    pub x: u16,
    /// Where it is now.
    pub y: u16,
    /// Whether it began on the view.
    pub on_view: bool,
    /// Whether it began on the line between the steps and the view.
    pub on_splitter: bool,
    /// Whether it has moved.
    pub is_drag: bool,
    /// When it was pressed.
    pub at: Instant,
}

/// How the screen is to look and to be used.
#[derive(Clone, Debug)]
pub struct Style {
    /// Name of the theme.
    pub theme: String,
    /// The user's own themes: name and text.
    pub theme_files: Vec<(String, String)>,
    /// Colours of the terminal.
    pub depth: Depth,
    /// Whether only ASCII may be drawn.
    pub is_ascii: bool,
    /// Text of `keymap.toml`.
    pub keymap: String,
    /// Text of `prices.toml`: what an hour of a device costs, by its name.
    pub prices: String,
}

impl Style {
    /// For a screen that nobody sees: no colours, the commands' own keys.
    pub fn plain() -> Self {
        Self {
            theme: "dark".to_owned(),
            theme_files: Vec::new(),
            depth: Depth::Mono,
            is_ascii: false,
            keymap: String::new(),
            prices: String::new(),
        }
    }
}

/// An hour of no device costs more, in any currency.
const MOST_PRICE: f64 = 1e12;

/// Prices by device, as `prices.toml` has them: `H100-SXM = 2.5`.
fn prices(text: &str) -> Result<BTreeMap<String, f64>, String> {
    let prices: BTreeMap<String, f64> =
        toml::from_str(text).map_err(|error| format!("prices.toml: {}", error.message()))?;
    match prices.iter().find(|(_, price)| !(0.0..=MOST_PRICE).contains(*price)) {
        Some((device, price)) => Err(format!("prices.toml: {device} = {price} is no price")),
        None => Ok(prices),
    }
}

/// `prices` by the names that `catalog` gives the devices, and what is odd about them, a line each.
fn by_device(prices: &BTreeMap<String, f64>, catalog: &Catalog) -> (BTreeMap<String, f64>, Vec<String>) {
    let (mut named, mut odd) = (BTreeMap::new(), Vec::new());
    for (name, &price) in prices {
        match catalog.find(name) {
            Err(unknown) => odd.push(format!("prices.toml: {unknown}")),
            Ok(device) => match named.insert(device.id.clone(), price) {
                Some(other) if other.total_cmp(&price).is_ne() => {
                    odd.push(format!(
                        "prices.toml: {} costs {other} and, as {name}, {price}: {price} is taken",
                        device.id
                    ));
                }
                _ => {}
            },
        }
    }
    (named, odd)
}

/// Messages, and lines of the prompt, that are kept.
const MOST_REMEMBERED: usize = 1_000;

/// The whole state.
#[derive(Debug)]
pub struct App {
    /// The terminal's size.
    pub size: Size,
    /// Colours.
    pub theme: Theme,
    /// The user's own themes.
    pub theme_files: Vec<(String, String)>,
    /// Colours of the terminal.
    pub depth: Depth,
    /// Whether only ASCII may be drawn.
    pub is_ascii: bool,
    /// Keys.
    pub keymap: Keymap,
    /// What an hour of a device costs, by its name.
    pub prices: Arc<BTreeMap<String, f64>>,
    /// Names of the catalog's devices with a line about each.
    pub devices: Vec<(String, String)>,
    /// What is being loaded.
    pub loading: Option<Loading>,
    /// Why nothing could be loaded.
    pub failure: Option<String>,
    /// The opened traces.
    pub workspaces: Vec<Workspace>,
    /// The one shown.
    pub shown: usize,
    /// The open view.
    pub view: &'static dyn View,
    /// Which part has the keys.
    pub focus: Focus,
    /// Columns of the list of steps, where the mouse has moved its edge.
    pub list_width: Option<u16>,
    /// Whether tracks are drawn below the timeline.
    pub tracks: Tracks,
    /// What lies over the screen.
    pub overlay: Option<Overlay>,
    /// The last message, until the next key.
    pub status: Option<Message>,
    /// All messages.
    pub messages: Vec<Message>,
    /// What was typed at the prompt.
    pub typed: Vec<String>,
    /// Whether the mouse is captured.
    pub mouse: bool,
    /// The last press of the mouse button.
    pub press: Option<MousePress>,
    /// The script that is being played.
    pub script: Option<Script>,
    /// What came of the script played last.
    pub played: Vec<Played>,
    /// What the last expectation came to, until a script takes it.
    pub verdict: Option<Verdict>,
    /// The script that commands are recorded to.
    pub recording: Option<Recording>,
    /// Files that are being read or written.
    pub busy: usize,
    /// Whether leaving loses nothing.
    pub saving: Saving,
    /// The trace beside which another is being opened.
    pub compared_with: Option<usize>,
    /// Which iteration of what is opened is modelled.
    pub build: BuildOptions,
    /// The paper whose algorithm is shown beside our own replay.
    pub algorithm: Option<Algorithm>,
    /// Keys of which it was said that they mean something else now.
    pub told_keys: BTreeSet<&'static str>,
}

impl App {
    /// A screen with nothing on it yet. A theme or keymap that cannot be used is replaced and said so.
    pub fn new(style: &Style, size: Size) -> Self {
        let mut messages = Vec::new();
        let mut fallback = |error: String| messages.push(Message::error(error));
        let theme = Theme::load(&style.theme, &style.theme_files, style.depth).unwrap_or_else(|error| {
            fallback(error.to_string());
            Theme::standard(style.depth)
        });
        let keymap = Keymap::load(&style.keymap).unwrap_or_else(|error| {
            fallback(error.to_string());
            Keymap::standard()
        });
        let prices = prices(&style.prices).unwrap_or_else(|error| {
            fallback(error);
            BTreeMap::new()
        });
        Self {
            size,
            theme,
            theme_files: style.theme_files.clone(),
            depth: style.depth,
            is_ascii: style.is_ascii,
            keymap,
            prices: Arc::new(prices),
            devices: Vec::new(),
            loading: None,
            failure: None,
            workspaces: Vec::new(),
            shown: 0,
            view: views::ALL[0],
            focus: Focus::View,
            list_width: None,
            tracks: Tracks::WhereRoom,
            overlay: None,
            status: messages.last().cloned(),
            messages,
            typed: Vec::new(),
            mouse: true,
            press: None,
            script: None,
            played: Vec::new(),
            verdict: None,
            recording: None,
            busy: 0,
            saving: Saving::Off,
            compared_with: None,
            build: BuildOptions::default(),
            algorithm: None,
            told_keys: BTreeSet::new(),
        }
    }

    /// Asks for traces to be opened, with steps to begin with.
    pub fn open(&mut self, open: Open, scenario: Scenario) -> Effect {
        let options = OpenOptions::default();
        self.loading = Some(Loading::new(open.title(), Arc::clone(&options.progress)));
        Effect::Ask(Request::Open { open, options, build: self.build, scenario })
    }

    /// Asks for more traces to be opened beside those that are.
    ///
    /// # Errors
    /// Others are being loaded: what came of the one could not be told from what came of the others.
    pub fn open_beside(&mut self, open: Open) -> Result<Effect, &'static str> {
        if self.loading.is_some() {
            return Err("a trace is being loaded: esc stops that");
        }
        self.busy += 1;
        Ok(self.open(open, Scenario::default()))
    }

    /// The trace that is shown.
    pub fn workspace(&self) -> Option<&Workspace> {
        self.workspaces.get(self.shown)
    }

    /// The trace that is shown.
    pub fn workspace_mut(&mut self) -> Option<&mut Workspace> {
        self.workspaces.get_mut(self.shown)
    }

    /// Whether nothing is being loaded, computed, read or written.
    pub fn is_settled(&self) -> bool {
        self.loading.is_none() && self.busy == 0 && !self.workspaces.iter().any(Workspace::is_computing)
    }

    /// What the user did to trace `number`, as it is saved; the view of one that is not shown is that of `before`.
    /// `None` where it is not this one's to save.
    pub fn session(&self, number: usize, before: Option<&SavedSession>) -> Option<SavedSession> {
        if !self.owns_session(number) {
            return None;
        }
        let own = if self.shows(&views::Timeline) { "" } else { self.view.name() };
        let view = if number == self.shown { own } else { before.map_or("", |session| &session.view) };
        Some(self.workspaces.get(number)?.session(view))
    }

    /// Whether what the user does to trace `number` is kept in a session: of those that are the same trace in the first alone.
    pub fn owns_session(&self, number: usize) -> bool {
        self.first_of_same(number) == Some(number)
    }

    /// The first trace that is the same as `number`.
    pub fn first_of_same(&self, number: usize) -> Option<usize> {
        let own = &self.workspaces.get(number)?.fingerprint;
        self.workspaces.iter().position(|work| work.fingerprint == *own)
    }

    /// Takes over which devices `engine` knows, and puts prices under their names there; what cannot be is said.
    pub fn take_devices(&mut self, engine: &Engine) {
        self.devices = device_lines(engine);
        let (prices, odd) = by_device(&self.prices, &engine.catalog);
        self.prices = Arc::new(prices);
        for line in odd {
            self.say(Message::error(line));
        }
    }

    /// Shows a message and keeps it.
    pub fn say(&mut self, message: Message) {
        if message.level == Level::Error || self.messages.last() != Some(&message) {
            self.messages.push(message.clone());
        }
        self.status = Some(message);
    }

    /// Lets the oldest messages and lines of the prompt go that are beyond what is kept.
    pub fn forget(&mut self) {
        self.messages.drain(..self.messages.len().saturating_sub(MOST_REMEMBERED));
        self.typed.drain(..self.typed.len().saturating_sub(MOST_REMEMBERED));
    }

    /// Keeps a message that was not said before; shows it unless another is shown.
    pub fn mention(&mut self, message: Message) {
        if self.messages.contains(&message) {
            return;
        }
        match self.status {
            None => self.say(message),
            Some(_) => self.messages.push(message),
        }
    }

    /// The areas of the screen; those of the least size when it is smaller.
    pub fn regions(&self) -> Regions {
        self.regions_of(self.size).or_else(|| self.regions_of(layout::BARE)).unwrap_or_default()
    }

    /// The areas of a screen of `size`; `None` when it is too small.
    pub fn regions_of(&self, size: Size) -> Option<Regions> {
        let wanted = Wanted {
            steps: self.focus == Focus::Scenario,
            ribbon: self.workspace().map_or(1, ribbon::height),
            list: self.list_width,
        };
        layout::regions(size, wanted)
    }

    /// The pane whose keys count.
    pub fn pane(&self) -> Pane {
        if self.focus == Focus::Scenario { Pane::Scenario } else { self.view.pane() }
    }

    /// Whether `view` is open.
    pub fn shows(&self, view: &dyn View) -> bool {
        self.view.name() == view.name()
    }

    /// The part of the view with the lanes, and how many rows of tracks lie below it.
    pub fn timeline_area(&self) -> (Rect, u16) {
        const LEAST_LANES: u16 = 7;
        const ROOM: u16 = 20;
        let view = self.regions().view;
        let room = match self.tracks {
            Tracks::WhereRoom if view.height < ROOM => 0,
            Tracks::Never => 0,
            _ => view.height.saturating_sub(LEAST_LANES),
        };
        let wanted = if room > 0 { self.workspace().map_or(0, |work| work.tracks().len() as u16) } else { 0 };
        let tracks = wanted.min(room);
        (Rect { height: view.height - tracks, ..view }, tracks)
    }

    /// Acts on the timeline that is shown.
    pub fn with_timeline<T>(&mut self, act: impl FnOnce(Scene<'_>, Extent, &mut Timeline) -> T) -> Option<T> {
        let (view, _) = self.timeline_area();
        let extent = Extent { width: view.width, height: view.height };
        let (scene, timeline) = self.workspaces.get_mut(self.shown)?.scene_and_timeline();
        Some(act(scene, extent, timeline))
    }

    /// Asks for what the open view shows beyond the result itself.
    pub fn start_background(&mut self) -> Vec<Effect> {
        self.view.start(self)
    }

    /// Copies the selected event's name, or the scenario's steps.
    pub fn copy(&mut self) -> CommandResult {
        let work = self.workspace().ok_or("no trace is open yet")?;
        let steps: Vec<String> = work.history.current().steps.iter().map(ToString::to_string).collect();
        let text = match (self.focus, work.timeline.selected) {
            (Focus::View, Some(item)) => work.scene().name(item).to_owned(),
            _ if steps.is_empty() => return Err("nothing is selected and there are no steps".to_owned()),
            _ => steps.join("\n"),
        };
        self.say(Message::note(format!("copied {}", short_name(text.lines().next().unwrap_or("")))));
        Ok(vec![Effect::Copy(text)])
    }
}
