//! A file as a source: read when it changed, told to the machine as the full state that it is.

use std::path::Path;

use bytes::Bytes;
use oxds_types::codec::{self, Format, LoadedResource};
use oxds_types::discovery::{Any, DiscoveryResponse, Resource};
use oxds_types::file::{self, Stamp};
use oxds_types::{Fingerprint, ResourceType};
use prost::Message as _;
use tokio::task::JoinHandle;

use super::Io;
use super::watched::Watched;
use crate::source::File;

pub(super) struct FileFeed {
    file: File,
    resource_type: ResourceType,
    options: codec::Options,
    /// None while it is closed.
    watched: Option<Watched>,
    /// That it is open has yet to be said.
    opened: bool,
    /// What the machine asked for last.
    names: Vec<String>,
    /// The machine has yet to be told of what is held.
    due: bool,
    /// The state of the file that was read last.
    stamp: Stamp,
    /// What was in it when it could be read last.
    held: Option<DiscoveryResponse>,
    reading: Option<JoinHandle<Result<DiscoveryResponse, String>>>,
}

impl FileFeed {
    pub(super) fn new(file: File, resource_type: ResourceType, most_bytes: usize) -> Self {
        let mut options = codec::Options::default();
        options.max_bytes = options.max_bytes.min(most_bytes);
        // Whoever wrote it may be newer than we are.
        options.allow_unknown_fields = true;
        Self {
            file,
            resource_type,
            options,
            watched: None,
            opened: false,
            names: Vec::new(),
            due: false,
            stamp: Stamp::default(),
            held: None,
            reading: None,
        }
    }

    pub(super) fn open(&mut self) {
        self.watched = Some(Watched::new(&self.file));
        self.opened = true;
    }

    /// Other names are told at once of what is held; an acknowledgement has the names that it had.
    pub(super) fn ask(&mut self, names: Vec<String>) {
        if self.names != names {
            self.names = names;
            self.due = self.held.is_some();
        }
    }

    /// Nothing is kept: when it is opened again, it is read again.
    pub(super) fn close(&mut self) {
        *self = Self {
            options: self.options.clone(),
            ..Self::new(self.file.clone(), self.resource_type.clone(), 0)
        };
    }

    /// Cancel-safe: what was begun is kept in `self`.
    pub(super) async fn next(&mut self) -> Io {
        if std::mem::take(&mut self.opened) {
            return Io::Opened(None);
        }
        loop {
            if let Some(reading) = &mut self.reading {
                let read = reading.await;
                self.reading = None;
                match read {
                    Ok(Ok(response)) => {
                        self.held = Some(response);
                        self.due = true;
                    }
                    Ok(Err(reason)) => return Io::Unreadable(reason),
                    Err(error) => return Io::Unreadable(error.to_string()),
                }
            }
            if std::mem::take(&mut self.due)
                && let Some(held) = &self.held
            {
                return Io::Response(held.clone());
            }
            let Some(watched) = &mut self.watched else {
                return std::future::pending().await;
            };
            self.stamp = watched.changed(self.stamp).await;
            let (path, resource_type) = (self.file.path.clone(), self.resource_type.clone());
            let options = self.options.clone();
            let read = move || read(&path, &resource_type, &options);
            self.reading = Some(tokio::task::spawn_blocking(read));
        }
    }
}

/// The resources of the kind in a file, as a response. Those of other kinds are for others.
fn read(
    path: &Path,
    resource_type: &ResourceType,
    options: &codec::Options,
) -> Result<DiscoveryResponse, String> {
    let named = |reason: &dyn std::fmt::Display| format!("{}: error: {reason}", path.display());
    let format = Format::from_path(path).ok_or_else(|| {
        named(&"its name tells no format: .pb, .json, .yaml, .yml, .pb_text, .textproto")
    })?;
    let bytes = file::read(path, options.max_bytes).map_err(|error| named(&error))?;
    let loaded = codec::decode(path, format, &bytes, options).map_err(|errors| {
        let texts: Vec<_> = errors.iter().map(ToString::to_string).collect();
        texts.join("; ")
    })?;
    let mut version = Fingerprint::default();
    let of_type = loaded
        .into_iter()
        .filter(|loaded| loaded.resource_type == *resource_type);
    let resources = of_type.map(|loaded| {
        version.add(&loaded.name, &loaded.version);
        wrapped(loaded)
    });
    let resources = resources.collect();
    Ok(DiscoveryResponse {
        version_info: version.version().to_string(),
        resources,
        type_url: resource_type.type_url().to_owned(),
        ..DiscoveryResponse::default()
    })
}

/// With its name, which not every kind has in itself.
fn wrapped(loaded: LoadedResource) -> Any {
    let wrapper = Resource {
        name: loaded.name.as_ref().to_owned(),
        version: loaded.version.to_string(),
        resource: Some(loaded.any),
        ..Resource::default()
    };
    Any {
        type_url: "type.googleapis.com/envoy.service.discovery.v3.Resource".to_owned(),
        value: Bytes::from(wrapper.encode_to_vec()),
    }
}
