//! Trace exporter. Sends each finished operation to a collector as a tree of spans, using OTLP over HTTP.
//!
//! ```text
//! Engine::all_events ──▶ finished? ──▶ its log ──▶ build_spans ──▶ CollectorClient::deliver
//!                                                                  └──▶ SubscriberProgress
//! ```
//!
//! Spans are derived from a finished operation's log, so a trace is complete even after a crash. They are
//! sent at least once, always with the same IDs. Until a collector accepts them, they exist only in the log,
//! so a failing collector neither uses up memory nor delays operations.

mod collector;
mod collector_client;
mod operation_spans;
mod otlp;
mod span;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tidegate_app_controller::ApplicationService;
use tidegate_application::AppKey;
use tidegate_daemon::queries::Queries;
use tidegate_executor::{Engine, EngineError, Event, EventKind};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use self::collector_client::CollectorClient;
use crate::subscriber_progress::{SubscriberProgress, remove_other_progress};

pub use self::collector::{Collector, CollectorError};

/// Name of the file with the export progress.
const PROGRESS_NAME: &str = "collector";
/// Maximum number of spans in one request.
const SPANS_MAX: usize = 512;
/// Maximum number of operations in a batch, and maximum time that an operation waits for others.
const BATCH_MAX: usize = 64;
const BATCH_DELAY_MAX: Duration = Duration::from_secs(1);
/// Maximum number of events without a trace before progress is written to disk.
const SKIPPED_EVENTS_MAX: u32 = 1024;

/// Running trace exporter. Dropping this value stops it.
pub struct TraceExporter(Option<JoinHandle<()>>);

impl Drop for TraceExporter {
    fn drop(&mut self) {
        if let Some(sending) = &self.0 {
            sending.abort();
        }
    }
}

impl TraceExporter {
    /// Starts exporting to the collector: operations that finish from now on, and earlier ones that it hasn't
    /// accepted yet. `folder` stores the progress. A new collector, or a collector that wasn't configured for
    /// a while, doesn't get operations that finished before this call.
    ///
    /// # Errors
    ///
    /// Returns an error if the engine has stopped or its log cannot be read.
    pub async fn start(
        collector: Option<Collector>,
        engine: &Engine,
        queries: &Queries,
        folder: &Path,
    ) -> Result<Self, EngineError> {
        let Some(collector) = collector else {
            remove_other_progress(folder, BTreeSet::new());
            return Ok(Self(None));
        };
        let progress = SubscriberProgress::open(folder, PROGRESS_NAME, engine).await?;
        let (engine, applications) = (engine.clone(), queries.wait_for_applications());
        let sending = tokio::spawn(async move {
            // The spans include each operation's project, which isn't known until the applications are
            // managed.
            if let Some(service) = applications.await {
                let client = CollectorClient::new(collector);
                ExportTask { engine, service, progress, client, spans: Vec::new() }.run().await;
            }
        });
        Ok(Self(Some(sending)))
    }
}

/// State of the exporter.
struct ExportTask {
    engine: Engine,
    service: ApplicationService,
    progress: SubscriberProgress,
    client: CollectorClient,
    /// Unsent spans.
    spans: Vec<Value>,
}

impl ExportTask {
    async fn run(mut self) {
        let mut events = self.engine.all_events(self.progress.cursor());
        let (mut ended, mut until, mut passed) = (Vec::new(), Instant::now(), 0_u32);
        loop {
            let event = if ended.is_empty() {
                events.next().await
            } else if let Ok(event) = tokio::time::timeout_at(until, events.next()).await {
                event
            } else {
                self.send_traces(&mut ended).await;
                continue;
            };
            match event {
                Some(Ok(event)) if matches!(event.what, EventKind::Finished { .. }) => {
                    if ended.is_empty() {
                        until = Instant::now() + BATCH_DELAY_MAX;
                    }
                    ended.push(event);
                }
                Some(Ok(event)) => {
                    self.progress.record_event(&event);
                    passed = passed.saturating_add(1);
                }
                Some(Err(missed)) => tracing::warn!(%missed, "missed some events; the traces are incomplete"),
                None => return,
            }
            if ended.len() >= BATCH_MAX {
                self.send_traces(&mut ended).await;
            } else if passed > SKIPPED_EVENTS_MAX {
                self.progress.write().await;
                passed = 0;
            }
        }
    }

    /// Sends the operations' traces until they are accepted or permanently rejected.
    async fn send_traces(&mut self, ended: &mut Vec<Event>) {
        for event in ended.iter() {
            match self.engine.history(event.operation).await {
                Ok((state, events)) => {
                    let application = self.service.application(&AppKey::parse(&event.application));
                    let project = application.as_ref().map(|application| application.spec.project.as_str());
                    let spans = operation_spans::build_spans(&state, &events, project);
                    self.spans.extend(spans.iter().map(|span| otlp::encode_span(event.operation, span)));
                }
                Err(error) => {
                    let operation = event.operation.to_string();
                    tracing::warn!(operation, %error, "failed to trace an operation");
                }
            }
            while self.spans.len() >= SPANS_MAX {
                let later = self.spans.split_off(SPANS_MAX);
                self.client.deliver(&self.spans).await;
                self.spans = later;
            }
        }
        if !self.spans.is_empty() {
            self.client.deliver(&self.spans).await;
            self.spans.clear();
        }
        ended.drain(..).for_each(|event| self.progress.record_event(&event));
        self.progress.write().await;
    }
}
