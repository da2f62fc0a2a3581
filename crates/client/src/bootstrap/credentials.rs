//! Reads `channel_creds` and `call_creds`.

use super::credential_types::CredentialTypes;
use super::field::{FieldError, JsonField};
use crate::credentials::{CallCredentials, ChannelCredentials, Configured};

/// Reads `channel_creds`.
pub(super) fn channel(
    types: &CredentialTypes,
    of: &JsonField<'_>,
) -> Result<Configured<dyn ChannelCredentials>, FieldError> {
    let at = of.field("channel_creds");
    if at.present().is_none() {
        return Err(at.fault("must be set"));
    }
    let mut found = Vec::new();
    // gRFC A27: the first known type is used; an error in its config is not skipped (C-11, C-13).
    for entry in at.items()? {
        let (name, config) = entry_of(&entry)?;
        if let Some(made) = types.channel(&name, config.present()) {
            return made.map_err(|reason| config.fault(&reason));
        }
        // gRFC A27: an unknown type is skipped; a later entry may be supported (C-11).
        found.push(name);
    }
    let known = types.names();
    let found = if found.is_empty() {
        "none".to_owned()
    } else {
        found.join(", ")
    };
    Err(at.fault(&format!(
        "has no supported type: found {found}, expected one of {known}"
    )))
}

/// Reads `call_creds`: the entries of all known types. Without a known type, the field is ignored like any unknown
/// field.
pub(super) fn call(
    types: &CredentialTypes,
    of: &JsonField<'_>,
) -> Result<Vec<Configured<dyn CallCredentials>>, FieldError> {
    let at = of.optional("call_creds");
    let Some(at) = at.filter(|_| types.has_call_types()) else {
        return Ok(Vec::new());
    };
    let mut all = Vec::new();
    // gRFC A97: all known types apply, not only the first (C-34).
    for entry in at.items()? {
        let (name, config) = entry_of(&entry)?;
        if let Some(made) = types.call(&name, config.present()) {
            all.push(made.map_err(|reason| config.fault(&reason))?);
        }
    }
    Ok(all)
}

/// Returns the `type` of an entry, and its `config`, which may be absent.
fn entry_of<'a>(entry: &JsonField<'a>) -> Result<(String, JsonField<'a>), FieldError> {
    entry.object()?;
    let name = entry.text("type")?;
    let name = name.ok_or_else(|| entry.field("type").fault("must be set"))?;
    Ok((name, entry.field("config")))
}
