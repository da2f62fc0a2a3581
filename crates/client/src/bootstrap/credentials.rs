//! Reads `channel_creds` and `call_creds`.

use super::read::{At, Fault};
use super::{CallCredentials, ChannelCredentials, Configured, CredentialTypes};

/// How to connect. The first type that is known is the one, whatever comes of it (C-11, C-13).
pub(super) fn channel(
    types: &CredentialTypes,
    of: &At<'_>,
) -> Result<Configured<dyn ChannelCredentials>, Fault> {
    let at = of.field("channel_creds");
    if at.present().is_none() {
        return Err(at.fault("must be set"));
    }
    let mut found = Vec::new();
    for entry in at.items()? {
        let (name, config) = entry_of(&entry)?;
        if let Some(made) = types.channel(&name, config.present()) {
            return made.map_err(|reason| config.fault(&reason));
        }
        found.push(name);
    }
    let known = types.names();
    let found = if found.is_empty() {
        "none".to_owned()
    } else {
        found.join(", ")
    };
    Err(at.fault(&format!(
        "has no type that is supported here ({known}), but {found}"
    )))
}

/// What calls show: all types that are known (gRFC A97). While none is, the field is as unknown as any other.
pub(super) fn call(
    types: &CredentialTypes,
    of: &At<'_>,
) -> Result<Vec<Configured<dyn CallCredentials>>, Fault> {
    let at = of.optional("call_creds");
    let Some(at) = at.filter(|_| types.has_call_types()) else {
        return Ok(Vec::new());
    };
    let mut all = Vec::new();
    for entry in at.items()? {
        let (name, config) = entry_of(&entry)?;
        if let Some(made) = types.call(&name, config.present()) {
            all.push(made.map_err(|reason| config.fault(&reason))?);
        }
    }
    Ok(all)
}

/// The type, and where its config stands, or would.
fn entry_of<'a>(entry: &At<'a>) -> Result<(String, At<'a>), Fault> {
    entry.object()?;
    let name = entry.text("type")?;
    let name = name.ok_or_else(|| entry.field("type").fault("must be set"))?;
    Ok((name, entry.field("config")))
}
