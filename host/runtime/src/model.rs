//! Which model is asked: the first that somebody named, else the one that a key or a base URL leads to.

use crate::environment::{BASE_URL_VARIABLES, CREDENTIAL_VARIABLES, Environment, MODEL_VARIABLE};
use pith_core::Model;
use pith_llm::{
    Client, Endpoint, LlmError, SCENARIO_LIMIT_BYTES, Scripted, Secret, connect, default_model, list_models,
};
use pith_os::OpenError;
use pith_protocol::{InvalidModelRef, ModelRef};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// The provider that plays a file.
const SCRIPTED: &str = "scripted";
/// Names of models that a server's list may contribute to an error.
const LISTED_SHOWN: usize = 5;

/// No model can be asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// Nobody named one, and nothing leads to one. Three lines.
    #[error(
        "there is no model to ask{because}\n\
         Set ANTHROPIC_API_KEY or OPENAI_API_KEY; for a local server OPENAI_BASE_URL (with /v1) or ANTHROPIC_BASE_URL (without).\n\
         Name one with --model PROVIDER/ID, in PITH_MODEL, or as `model` in {settings}.",
        because = because(reason.as_deref()), settings = settings.display()
    )]
    NoModel {
        /// What was tried without success; one line.
        reason: Option<String>,
        /// The settings file.
        settings: PathBuf,
    },
    /// A name that is none.
    #[error("{origin}: {source}")]
    Name {
        /// Where it stands.
        origin: &'static str,
        /// What is wrong.
        #[source]
        source: InvalidModelRef,
    },
    /// Nobody serves it.
    #[error("there is no provider {provider}; there are anthropic, openai and scripted")]
    UnknownProvider {
        /// As named.
        provider: String,
    },
    /// Its provider needs a key, or a server of one's own.
    #[error("{model} needs a key: set {key}, or {base_url} for a server that needs none")]
    NoKey {
        /// As named.
        model: String,
        /// The variable for the key.
        key: &'static str,
        /// The variable for the server.
        base_url: &'static str,
    },
    /// The key, the base URL or the scenario cannot be used.
    #[error("{0}")]
    Unusable(#[from] LlmError),
    /// A variable's value cannot be used.
    #[error("{variable}: {source}")]
    Variable {
        /// The variable.
        variable: &'static str,
        /// Why.
        #[source]
        source: LlmError,
    },
    /// A scenario's file cannot be read.
    #[error("the scenario cannot be read: {0}")]
    Scenario(#[from] OpenError),
    /// A scenario's file is no text.
    #[error("the scenario {0} is not UTF-8 text")]
    ScenarioBytes(PathBuf),
}

/// Who named a model.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Named<'a> {
    pub flag: Option<&'a ModelRef>,
    pub resumed: Option<&'a ModelRef>,
    pub settings: Option<&'a ModelRef>,
}

/// The providers that the environment leads to.
pub(crate) struct Providers<'a> {
    pub client: Client,
    pub environment: &'a Environment,
    /// Of relative names of scenarios.
    pub base: &'a Path,
    /// For the words of `NoModel`.
    pub settings_file: &'a Path,
}

/// Whether any provider that may be asked is reached over https: then the roots are read while everything else starts.
pub(crate) fn needs_tls(environment: &Environment, flag: Option<&ModelRef>) -> bool {
    let reached = |provider: &str| endpoint(environment, provider).ok().flatten().is_some_and(|it| it.is_https());
    match flag {
        Some(model) => reached(&model.provider),
        None => BASE_URL_VARIABLES.iter().any(|(provider, _)| reached(provider)),
    }
}

impl Providers<'_> {
    /// The first of: the flag, the resumed session's, `PITH_MODEL`, the settings', the default for the first key, the only model that a
    /// base URL lists. A resumed one that cannot be asked here is passed over with a notice; any other is an error.
    pub async fn choose(&self, named: Named<'_>, notices: &mut Vec<String>) -> Result<Arc<dyn Model>, ModelError> {
        if let Some(model) = named.flag {
            return self.open(model);
        }
        if let Some(model) = named.resumed {
            // A file must not bring a script of calls with it: a scenario is played only where somebody names it now.
            let opened = if model.provider == SCRIPTED {
                Err("it was scripted".to_owned())
            } else {
                self.open(model).map_err(|error| error.to_string())
            };
            match opened {
                Ok(opened) => return Ok(opened),
                Err(reason) => notices.push(format!("the session's model {model} is not asked here: {reason}")),
            }
        }
        if let Some(text) = self.environment.get(MODEL_VARIABLE) {
            let model = text.trim().parse().map_err(|source| ModelError::Name { origin: MODEL_VARIABLE, source })?;
            return self.open(&model);
        }
        if let Some(model) = named.settings {
            return self.open(model);
        }
        for known in CREDENTIAL_VARIABLES {
            if self.environment.get(known.name).is_some()
                && let Some(model) = default_model(known.provider)
            {
                // With a server of one's own somewhere, what is asked is not what one might expect.
                if BASE_URL_VARIABLES.iter().any(|(provider, _)| self.environment.base_url(provider).is_some()) {
                    notices.push(format!(
                        "asking {model}, the default where {} is set; name another with --model",
                        known.name
                    ));
                }
                return self.open(&model);
            }
        }
        self.listed().await
    }

    /// The only model that a base URL's list has.
    async fn listed(&self) -> Result<Arc<dyn Model>, ModelError> {
        let mut reasons = Vec::new();
        for (provider, _) in BASE_URL_VARIABLES {
            if self.environment.base_url(provider).is_none() {
                continue;
            }
            let Some(endpoint) = endpoint(self.environment, provider)? else { continue };
            match list_models(&self.client, &endpoint).await {
                Ok(models) if models.len() == 1 => return Ok(connect(&self.client, &endpoint, &models[0])),
                Ok(models) if models.is_empty() => reasons.push(format!("{} lists none", endpoint.base_url())),
                Ok(models) => {
                    let mut some = models
                        .iter()
                        .take(LISTED_SHOWN)
                        .map(|id| format!("{provider}/{id}"))
                        .collect::<Vec<_>>()
                        .join(", ");
                    if models.len() > LISTED_SHOWN {
                        some.push_str(" ...");
                    }
                    reasons.push(format!(
                        "{} lists {}, so one has to be named ({some})",
                        endpoint.base_url(),
                        models.len()
                    ));
                }
                Err(error) => reasons.push(error.to_string()),
            }
        }
        let reason = reasons.join("; ").lines().collect::<Vec<_>>().join(" ");
        let reason = Some(reason).filter(|reason| !reason.is_empty());
        Err(ModelError::NoModel { reason, settings: self.settings_file.to_owned() })
    }

    fn open(&self, model: &ModelRef) -> Result<Arc<dyn Model>, ModelError> {
        if model.provider == SCRIPTED {
            return Ok(Arc::new(self.scripted(&model.id)?));
        }
        let Some((provider, base_url)) = BASE_URL_VARIABLES.iter().find(|(provider, _)| *provider == model.provider)
        else {
            return Err(ModelError::UnknownProvider { provider: model.provider.clone() });
        };
        match endpoint(self.environment, provider)? {
            Some(endpoint) => Ok(connect(&self.client, &endpoint, &model.id)),
            None => Err(ModelError::NoKey { model: model.to_string(), key: key_variable(provider), base_url }),
        }
    }

    fn scripted(&self, file: &str) -> Result<Scripted, ModelError> {
        let path = self.base.join(file);
        let bytes = pith_os::read_regular(&path, SCENARIO_LIMIT_BYTES as u64)?;
        let text = String::from_utf8(bytes).map_err(|_| ModelError::ScenarioBytes(path))?;
        Ok(Scripted::parse(&text, file)?)
    }
}

/// The end of a sentence: the reason, if there is one, and its full stop, where it has no end of its own.
fn because(reason: Option<&str>) -> String {
    match reason.map(str::trim_end) {
        Some(reason) if reason.ends_with(['.', '?', '!']) => format!(": {reason}"),
        Some(reason) => format!(": {reason}."),
        None => ".".to_owned(),
    }
}

fn key_variable(provider: &str) -> &'static str {
    CREDENTIAL_VARIABLES.iter().find(|known| known.provider == provider).map_or("its key", |known| known.name)
}

/// Where a provider is reached; none where there is neither a key nor a base URL.
fn endpoint(environment: &Environment, provider: &str) -> Result<Option<Endpoint>, ModelError> {
    let variable = key_variable(provider);
    let key = environment
        .key(provider)
        .map(Secret::new)
        .transpose()
        .map_err(|source| ModelError::Variable { variable, source })?;
    let base_url = environment.base_url(provider);
    if key.is_none() && base_url.is_none() {
        return Ok(None);
    }
    let built =
        if provider == "anthropic" { Endpoint::anthropic(base_url, key) } else { Endpoint::openai(base_url, key) };
    let base = BASE_URL_VARIABLES.iter().find(|(known, _)| *known == provider).map_or("", |(_, name)| name);
    built.map(Some).map_err(|source| ModelError::Variable { variable: base, source })
}

#[cfg(test)]
#[path = "model_tests.rs"]
mod tests;
