//! The start: from options to a running session. What can be done beside each other is.

use crate::{
    clock::SystemClock,
    environment::Environment,
    guests::{GuestsError, House, Progress},
    hardening,
    index::Index,
    model::{ModelError, Named, Providers, needs_tls},
    notice::one_line,
    pith::{Nobody, Pith},
    places::{NoHome, Places, WorkspaceError},
    plugins::{self, Planned, PluginsError, ShippedPlugin},
    prompt,
    sessions::{ChoiceError, Opened, Opener, SessionChoice},
    settings::{self, Settings, SettingsError},
    shelf::Shelf,
    sweep::Sweep,
};
use pith_core::{Agent, Budgets, Clock, Dispatcher, Mailbox, Outbox, Person};
use pith_llm::Client;
use pith_os::{SandboxLevel, SandboxMachine};
use pith_protocol::{ModelRef, ThinkingLevel};
use std::{
    io,
    path::PathBuf,
    sync::{Arc, Mutex},
};

/// What a session starts with: `Options::new`, then set what differs.
#[derive(Clone)]
pub struct Options {
    /// The folder to work in.
    pub workspace: PathBuf,
    /// Where Pith keeps things.
    pub places: Places,
    /// Keys, base URLs, `PITH_MODEL`; what children are given, credentials taken out.
    pub environment: Environment,
    /// Which session. Default: a new one.
    pub session: SessionChoice,
    /// Whether a session file of others counts as the user's own: what it says of prompt and tools, plugins' entries and all. Default: no.
    pub trust_session: bool,
    /// What the session is called from its start on. Default: what it is called already.
    pub name: Option<String>,
    /// The model, `PROVIDER/ID`, before all that are named elsewhere. `scripted/FILE` plays a file, relative to this process's folder.
    pub model: Option<String>,
    /// How hard it thinks, a level's name, before the session's and the settings' level. Default: `off`.
    pub thinking: Option<String>,
    /// The plugins that come with the program.
    pub shipped: Vec<ShippedPlugin>,
    /// Components to load besides; relative to this process's folder.
    pub plugins: Vec<PathBuf>,
    /// Further grants, `NAME:CAPABILITY[=BOUND]`.
    pub grants: Vec<String>,
    /// Whether any plugin is loaded. Default: yes.
    pub load_plugins: bool,
    /// `interactive`, `print`, `json`, `rpc`, `library` (the default) or `channel`: what plugins are told.
    pub face: String,
    /// Who answers gates' questions. Default: nobody, so what they ask about is denied.
    pub person: Option<Arc<dyn Person>>,
    /// How far programs that plugins run are held, before the settings' level. Default: `guard`.
    pub sandbox: Option<SandboxLevel>,
    /// What of the machine may be used to hold them; for trying what happens on lesser machines. Default: all of it.
    pub sandbox_mask: SandboxMachine,
    /// The system prompt's first section, instead of Pith's own.
    pub preamble: Option<String>,
    /// Told what the start is busy with, where that takes over a second. Default: nobody.
    pub progress: Option<Progress>,
}

impl Options {
    /// Everything else at its default: Pith's own places, a new session, the model that the environment leads to, no plugins.
    ///
    /// # Errors
    /// `StartError::NoHome`: then name the places with [`Options::at`].
    pub fn new(workspace: impl Into<PathBuf>, environment: Environment) -> Result<Self, StartError> {
        Ok(Self::at(Places::from_process()?, workspace, environment))
    }

    /// The same with places of one's own.
    pub fn at(places: Places, workspace: impl Into<PathBuf>, environment: Environment) -> Self {
        Self {
            workspace: workspace.into(),
            places,
            environment,
            session: SessionChoice::default(),
            trust_session: false,
            name: None,
            model: None,
            thinking: None,
            shipped: Vec::new(),
            plugins: Vec::new(),
            grants: Vec::new(),
            load_plugins: true,
            face: "library".to_owned(),
            person: None,
            sandbox: None,
            sandbox_mask: SandboxMachine::UNMASKED,
            preamble: None,
            progress: None,
        }
    }
}

/// A session that does not start. Nothing was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The folder.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// `settings.toml`.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The session.
    #[error(transparent)]
    Session(#[from] ChoiceError),
    /// The model.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// Which plugins.
    #[error(transparent)]
    Plugins(#[from] PluginsError),
    /// A plugin that does not load.
    #[error(transparent)]
    Guests(#[from] GuestsError),
    /// Nowhere to keep things.
    #[error(transparent)]
    NoHome(#[from] NoHome),
    /// A level that does not exist.
    #[error("--thinking: there is no level {text:?}; there are off, minimal, low, medium, high, xhigh and max")]
    Level {
        /// As given.
        text: String,
    },
    /// This process could not be closed to others, so no key is used.
    #[error("this process cannot be closed to other processes, so it uses no keys: {reason}")]
    Exposed {
        /// The system's words.
        reason: String,
    },
    /// This process's folder is gone.
    #[error("this process's working folder cannot be told: {0}")]
    ProcessFolder(#[source] io::Error),
    /// A part of the start ended early: it panicked, or the runtime shuts down.
    #[error("the start was interrupted: {0}")]
    Interrupted(#[from] tokio::task::JoinError),
}

impl StartError {
    /// What the process ends with: a refused start.
    pub fn exit_code(&self) -> u8 {
        2
    }

    /// What helps, where the error's own words do not say it already.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Session(ChoiceError::NotFound { .. }) => {
                Some("-c continues the folder's latest session, `pith session list` names all of them".to_owned())
            }
            Self::Session(error) => error.hint(),
            _ => None,
        }
    }
}

/// Starts a session. Needs a tokio runtime with time and IO enabled.
///
/// # Errors
/// Anything that would make the session other than asked for. Nothing of the session is on disk before its first message, or its
/// name where it is given one.
pub async fn start(options: Options) -> Result<Pith, StartError> {
    if let Some(reason) = hardening::failure() {
        return Err(StartError::Exposed { reason });
    }
    let base = std::env::current_dir().map_err(StartError::ProcessFolder)?;
    let (flag, level) = (named_model(&options)?, named_level(&options)?);
    let client = Client::start(needs_tls(&options.environment, flag.as_ref()));
    let options = Arc::new(options);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let outbox = Outbox::new();
    // What reads files, and what compiles, has a thread of its own.
    let quick = {
        let (options, clock, outbox) = (options.clone(), clock.clone(), outbox.clone());
        tokio::task::spawn_blocking(move || Quick::read(&options, clock, outbox)).await??
    };
    let Quick { workspace, settings, planned, opened, shelf } = quick;
    let mut notices = opened.notices;
    let settings = Arc::new(settings);
    let loading = {
        let (options, settings, workspace) = (options.clone(), settings.clone(), workspace.clone());
        let (session, is_kept) = (opened.session.id().clone(), opened.store.is_some());
        let outbox = outbox.clone();
        tokio::task::spawn_blocking(move || {
            let house = House {
                places: &options.places,
                environment: &options.environment,
                settings: &settings,
                workspace: &workspace,
                session: session.as_str(),
                is_kept,
                progress: options.progress.clone(),
                sandbox: options.sandbox.or(settings.sandbox).unwrap_or_default(),
                sandbox_mask: options.sandbox_mask,
                outbox,
            };
            house.load(planned)
        })
    };
    let reading = tokio::task::spawn_blocking(move || prompt::project_context(&workspace));
    let settings_file = options.places.settings_file();
    let providers = Providers { client, environment: &options.environment, base: &base, settings_file: &settings_file };
    let named = Named { flag: flag.as_ref(), resumed: opened.model.as_ref(), settings: settings.model.as_ref() };
    // All are waited for, so that nothing goes on behind a start that failed.
    let (guests, context, model) = tokio::join!(loading, reading, providers.choose(named, &mut notices));
    let (guests, context, model) = (guests??, context?, model?);
    notices.extend(guests.notices);
    notices.extend(context.notices.iter().cloned());
    let notices = notices.iter().map(|notice| one_line(notice)).collect();
    let person = options.person.clone().unwrap_or_else(|| Arc::new(Nobody));
    let interactive = person.is_there();
    if let Some(name) = &options.name {
        opened.session.set_name(Some(name.clone())).map_err(ChoiceError::Session)?;
    }
    let agent = Agent {
        session: opened.session,
        model,
        dispatcher: Arc::new(Dispatcher::new(guests.tools, guests.hooks, person, guests.spool, clock)),
        outbox,
        mailbox: Mailbox::default(),
        thinking: level.or(opened.thinking).or(settings.thinking).unwrap_or_default(),
        face: options.face.clone(),
        interactive,
        retry: settings.retry,
        budgets: Budgets::new(settings.compaction.clone()),
    };
    Ok(Pith {
        agent,
        store: opened.store,
        shelf,
        usage: guests.usage,
        sandbox: guests.sandbox,
        _scratch: guests.scratch,
        // Only now, when this session's own spool is held.
        _sweep: Sweep::begin(&options.places, std::env::temp_dir()),
        notices,
        preamble: options.preamble.clone(),
        context,
        running: Mutex::new(None),
    })
}

/// What comes first, because everything else needs it.
struct Quick {
    workspace: PathBuf,
    settings: Settings,
    planned: Vec<Planned>,
    opened: Opened,
    shelf: Shelf,
}

impl Quick {
    fn read(options: &Options, clock: Arc<dyn Clock>, outbox: Outbox) -> Result<Self, StartError> {
        let workspace = options.places.check_workspace(&options.workspace)?;
        let settings = Settings::read(&options.places.settings_file())?;
        let planned = if options.load_plugins {
            plugins::plan(&options.shipped, &options.plugins, &options.grants)?
        } else {
            plugins::plan(&[], &[], &options.grants)?
        };
        let shelf = Shelf {
            places: options.places.clone(),
            index: Index::at(&options.places),
            sync: settings.session_sync,
            face: options.face.clone(),
            clock,
            outbox,
        };
        let opener = Opener { shelf: &shelf, workspace: &workspace, is_trusted: options.trust_session };
        let opened = opener.open(&options.session)?;
        Ok(Self { workspace, settings, planned, opened, shelf })
    }
}

fn named_model(options: &Options) -> Result<Option<ModelRef>, ModelError> {
    let read = |text: &String| text.parse().map_err(|source| ModelError::Name { origin: "--model", source });
    options.model.as_ref().map(read).transpose()
}

fn named_level(options: &Options) -> Result<Option<ThinkingLevel>, StartError> {
    let read = |text: &String| {
        settings::level(text).ok_or_else(|| StartError::Level { text: text.chars().take(100).collect() })
    };
    options.thinking.as_ref().map(read).transpose()
}
