//! Reads a file when it has changed, and reports it to the state machine as a SotW response.

use std::path::Path;
use std::pin::Pin;

use bytes::Bytes;
use oxds_types::codec::{self, Format, LoadedResource};
use oxds_types::discovery::{Any, DiscoveryRequest, DiscoveryResponse, Resource};
use oxds_types::file::{self, Stamp};
use oxds_types::lifecycle::Policy;
use oxds_types::{Fingerprint, ResourceType};
use prost::Message as _;
use tokio::task::JoinHandle;

use super::changes::FileChanges;
use super::spec::File;
use crate::source::event::SourceEvent;
use crate::source::optional::OptionalFeed;

/// IO of a file source.
pub(super) struct FileFeed {
    file: File,
    resource_type: ResourceType,
    options: codec::Options,
    /// Detector of changes; `None` while closed.
    changes: Option<FileChanges>,
    /// `SourceEvent::Opened` has not been returned yet.
    opened: bool,
    /// Names of the last request.
    names: Vec<String>,
    /// `response` has not been returned since it was read or since the names changed.
    due: bool,
    /// Stamp of the file when it was read last.
    stamp: Stamp,
    /// Last valid content.
    response: Option<DiscoveryResponse>,
    /// Read in progress.
    reading: Option<JoinHandle<Result<DiscoveryResponse, String>>>,
}

impl FileFeed {
    /// Creates a closed feed.
    pub(super) fn new(file: File, resource_type: ResourceType, most_bytes: usize) -> Self {
        let mut options = codec::Options::default();
        options.max_bytes = options.max_bytes.min(most_bytes);
        // The file may be written for a newer API than this library knows.
        options.allow_unknown_fields = true;
        // As of every source, the resources are checked when they are received, if the client has such a check.
        options.policy = Policy::undecided();
        Self {
            file,
            resource_type,
            options,
            changes: None,
            opened: false,
            names: Vec::new(),
            due: false,
            stamp: Stamp::default(),
            response: None,
            reading: None,
        }
    }

    /// Waits for the next event. Cancel-safe: a read in progress is kept in `self`.
    async fn next_event(&mut self) -> SourceEvent {
        if std::mem::take(&mut self.opened) {
            return SourceEvent::Opened(None);
        }
        loop {
            if let Some(reading) = &mut self.reading {
                let read = reading.await;
                self.reading = None;
                match read {
                    Ok(Ok(response)) => {
                        self.response = Some(response);
                        self.due = true;
                    }
                    // The last valid content stays in `response` and in use (C-264).
                    Ok(Err(reason)) => return SourceEvent::Invalid(reason),
                    Err(error) => return SourceEvent::Invalid(error.to_string()),
                }
            }
            if std::mem::take(&mut self.due)
                && let Some(response) = &self.response
            {
                return SourceEvent::Response(response.clone());
            }
            let Some(changes) = &mut self.changes else {
                return std::future::pending().await;
            };
            self.stamp = changes.changed(self.stamp).await;
            let (path, resource_type) = (self.file.path.clone(), self.resource_type.clone());
            let options = self.options.clone();
            let read = move || read(&path, &resource_type, &options);
            self.reading = Some(tokio::task::spawn_blocking(read));
        }
    }
}

impl OptionalFeed for FileFeed {
    /// Starts to watch and read the file.
    fn open(&mut self) {
        self.changes = Some(FileChanges::new(&self.file));
        self.opened = true;
    }

    /// Takes a request. Changed names are answered at once from the last content. An ACK repeats the old names, and
    /// gets no answer.
    fn request(&mut self, request: DiscoveryRequest) {
        if self.names != request.resource_names {
            self.names = request.resource_names;
            self.due = self.response.is_some();
        }
    }

    /// Stops watching. The content is dropped: the file is read again after the next `open`.
    fn close(&mut self) {
        *self = Self {
            options: self.options.clone(),
            ..Self::new(self.file.clone(), self.resource_type.clone(), 0)
        };
    }

    fn next(&mut self) -> Pin<Box<dyn Future<Output = SourceEvent> + Send + '_>> {
        Box::pin(self.next_event())
    }
}

/// Reads the resources of one type from a file, as a response. Resources of other types are skipped.
fn read(
    path: &Path,
    resource_type: &ResourceType,
    options: &codec::Options,
) -> Result<DiscoveryResponse, String> {
    let with_path = |reason: &dyn std::fmt::Display| format!("{}: error: {reason}", path.display());
    let format = Format::from_path(path).ok_or_else(|| {
        with_path(
            &"unknown file extension: expected .pb, .json, .yaml, .yml, .pb_text or .textproto",
        )
    })?;
    let bytes = file::read(path, options.max_bytes).map_err(|error| with_path(&error))?;
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

/// Wraps a resource in a `Resource` message with its name, because not every resource type contains its name.
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
