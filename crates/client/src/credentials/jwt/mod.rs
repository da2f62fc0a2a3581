//! Call credentials from a file that holds a JWT (gRFC A97).

mod cache;
mod token;

use std::path::PathBuf;
use std::time::SystemTime;

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::tls::blocking;
use super::{CallCredentials, CallError, Pending};
use crate::random::random;
use cache::{Cache, Next};
use token::Token;

/// `authorization: Bearer …`, with the token that a file holds, such as Kubernetes' service account tokens.
///
/// The file is read when a call needs it, and again from a minute before the token is of no more use, which is 30 s
/// before it expires. While a good token is held, a file that cannot be read disturbs nobody; without one calls end with
/// UNAVAILABLE, or with UNAUTHENTICATED if what the file holds is no token, and it is read again after gRPC's backoff.
#[derive(Debug)]
pub struct JwtTokenFile {
    path: PathBuf,
    /// Held while the file is read: calls that come meanwhile wait for it, too.
    cache: Mutex<Cache>,
}

impl JwtTokenFile {
    /// The token in this file, which is not read yet.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            cache: Mutex::default(),
        }
    }

    /// Reads a `config`.
    pub(super) fn parse(config: Option<&Value>) -> Result<Self, String> {
        let path = config.and_then(|config| config.get("jwt_token_file"));
        match path.and_then(Value::as_str) {
            Some(path) if !path.is_empty() => Ok(Self::new(path)),
            _ => Err("jwt_token_file: must be the path of a file".to_owned()),
        }
    }

    async fn header(&self) -> Result<HeaderValue, CallError> {
        let mut cache = self.cache.lock().await;
        match cache.next(SystemTime::now(), Instant::now()) {
            Next::Use(header) => return Ok(header),
            Next::Fail(error) => return Err(error),
            Next::Read => {}
        }
        let read = self.read().await;
        if let Err(error) = &read {
            let path = self.path.display();
            tracing::warn!(target: "oxds::credentials", "{path}: {error}");
        }
        cache.take_in(read, SystemTime::now(), Instant::now(), random())
    }

    async fn read(&self) -> Result<Token, CallError> {
        let path = self.path.clone();
        let read = blocking(move || std::fs::read_to_string(path)).await;
        let text = read
            .and_then(|read| read)
            .map_err(|error| CallError::Unavailable(format!("{}: {error}", self.path.display())))?;
        token::parse(text.trim()).map_err(|fault| {
            CallError::Unauthenticated(format!("{}: {fault}", self.path.display()))
        })
    }
}

impl CallCredentials for JwtTokenFile {
    fn headers(&self) -> Pending<'_, Result<HeaderMap, CallError>> {
        Box::pin(async {
            let header = self.header().await?;
            Ok(HeaderMap::from_iter([(AUTHORIZATION, header)]))
        })
    }
}
