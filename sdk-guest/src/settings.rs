//! This plugin's settings.

use serde::de::DeserializeOwned;

use crate::Error;
pub use crate::authorities::settings::get as json;

/// The settings as a type of the plugin's own. Nothing set is an empty object, so give every field a default.
///
/// `invalid` where they do not fit the type.
pub fn get<T: DeserializeOwned>() -> Result<T, Error> {
    parse(&json())
}

/// [`get`] of this text; an empty one counts as `{}`.
pub fn parse<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    let text = if text.trim().is_empty() { "{}" } else { text };
    serde_json::from_str(text).map_err(|error| Error::invalid(format!("the plugin's settings: {error}")))
}
