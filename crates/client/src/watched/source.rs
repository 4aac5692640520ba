//! The requests of a watch: pages of a list, then changes from the revision of that list on.
//!
//! Objects are passed on as the text that the server sent. Whoever decodes them decides which fields matter.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures_util::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _};
use futures_util::stream::{self, BoxStream, StreamExt as _};
use http::Request;
use http::header::ACCEPT;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout};

use crate::call::{Resource, TIMEOUT, query_value, without_content};
use crate::connect::{Connection, describe};
use crate::random::fraction;

/// The number of objects in a page, as in client-go.
const PAGE: usize = 500;
/// A watch on which nothing arrives for so long is started again. API servers send a bookmark every minute.
pub(super) const SILENCE: Duration = Duration::from_secs(90);
/// The shortest duration that is asked for; up to twice as long, so that watches do not all end together. As in client-go.
const SHORTEST: Duration = Duration::from_secs(5 * 60);
/// A watch that ends earlier and without an event counts as refused.
const TOO_SHORT: Duration = Duration::from_secs(1);
/// The longest line of a watch, in bytes. Objects have at most 3 MiB where a server has the usual limits.
const LONGEST_LINE: u64 = 32 << 20;
/// After this many refusals to resume a watch, it starts over with a list.
const REFUSALS: u32 = 3;

/// After watches were silent so often in a row, although the server has something newer, everything is listed.
const SILENCES: u32 = 2;

/// How much of each object is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// The whole object.
    Whole,
    /// The metadata, if the server has this form of its objects; else the whole object.
    Metadata,
}

/// What was heard, and the revision up to which everything was.
pub(super) struct Heard {
    pub(super) what: What,
    /// 0 if the server's revisions are no numbers.
    pub(super) revision: u64,
    /// See [`Texts::newest`](super::Texts::newest).
    pub(super) newest: u64,
}

/// See [`Event`](super::Event).
pub(super) enum What {
    Restarted,
    Listed(Bytes),
    Synced,
    Applied(Bytes),
    Deleted(Bytes),
    Current,
    Resumed,
}

/// Why something failed.
pub(super) struct Trouble {
    /// The status code, if the server refused.
    pub(super) code: Option<u16>,
    pub(super) why: String,
}

impl Trouble {
    fn new(why: impl Into<String>) -> Self {
        Self { code: None, why: why.into() }
    }

    fn of(error: &kube::Error) -> Self {
        let code = match error {
            kube::Error::Api(status) => Some(status.code),
            _ => None,
        };
        Self { code, why: describe(error) }
    }

    fn late() -> Self {
        Self::new(format!("no answer in {} s", TIMEOUT.as_secs()))
    }

    fn undecodable(error: &serde_json::Error) -> Self {
        Self::new(format!("the answer: {}", without_content(error)))
    }
}

/// See the module.
pub(super) struct Source {
    connection: Connection,
    path: String,
    /// A field selector.
    fields: Option<String>,
    form: Form,
    /// See [`SILENCE`].
    silence: Duration,
    step: Step,
    /// The revision of the last event, as the server wrote it.
    revision: String,
    refusals: u32,
    /// What is heard when the watch goes on after a failure or silence.
    resumed: Option<What>,
    /// The revision that the server had when the watch last went on.
    newest: u64,
    /// How many watches in a row brought nothing for too long.
    silences: u32,
}

/// What happens next.
enum Step {
    /// A list starts.
    Start,
    /// The page that this token continues with is requested; the first page without a token.
    Page(Option<String>),
    /// The objects of a page are passed on. Then the next page is requested, if there is one.
    Items(std::vec::IntoIter<Bytes>, Option<String>),
    /// The watch starts. After a failure, once the server has shown that it has not gone back in time.
    Watch { is_checked: bool },
    /// Events arrive.
    Lines(Lines),
}

struct Lines {
    reader: Pin<Box<dyn AsyncBufRead + Send>>,
    began: Instant,
    is_used: bool,
}

#[derive(Deserialize)]
struct Page<'a> {
    #[serde(default)]
    metadata: ListMeta,
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMeta {
    #[serde(default)]
    resource_version: String,
    #[serde(default, rename = "continue")]
    next: String,
}

impl ListMeta {
    /// The revision, which every list and every object has.
    fn revision(self) -> Result<String, Trouble> {
        match self.resource_version.as_str() {
            "" => Err(Trouble::new("the answer has no resourceVersion")),
            _ => Ok(self.resource_version),
        }
    }
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Default, Deserialize)]
struct Versioned {
    #[serde(default)]
    metadata: ListMeta,
}

/// A Status instead of an event.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    code: u16,
    message: String,
}

impl Source {
    pub(super) fn new(
        connection: &Connection,
        resource: &Resource,
        fields: Option<&str>,
        (form, silence): (Form, Duration),
    ) -> Self {
        Self {
            connection: connection.clone(),
            path: resource.path(),
            fields: fields.map(query_value),
            form,
            silence,
            step: Step::Start,
            revision: String::new(),
            refusals: 0,
            resumed: None,
            newest: 0,
            silences: 0,
        }
    }

    /// All that is heard, and all failures. The caller waits after a failure, and then reads on. There is no end.
    pub(super) fn stream(self) -> BoxStream<'static, Result<Heard, Trouble>> {
        stream::unfold(self, |mut source| async move {
            let heard = source.next().await;
            let revision = source.revision.parse().unwrap_or(0);
            let newest = source.newest;
            Some((heard.map(|what| Heard { what, revision, newest }), source))
        })
        .boxed()
    }

    async fn next(&mut self) -> Result<What, Trouble> {
        loop {
            match &mut self.step {
                Step::Start => {
                    self.step = Step::Page(None);
                    return Ok(What::Restarted);
                }
                Step::Page(next) => {
                    let next = next.take();
                    // Whatever fails, the list starts again.
                    self.step = Step::Start;
                    self.page(next).await?;
                }
                Step::Items(items, next) => match (items.next(), next.take()) {
                    (Some(item), rest) => {
                        *next = rest;
                        return Ok(What::Listed(item));
                    }
                    (None, Some(token)) => self.step = Step::Page(Some(token)),
                    (None, None) => {
                        // A list says nothing about watches: if the next one is silent too, it is listed again at once.
                        self.silences = self.silences.min(SILENCES.saturating_sub(1));
                        self.step = Step::Watch { is_checked: true };
                        return Ok(What::Synced);
                    }
                },
                Step::Watch { is_checked: false } => self.check().await?,
                Step::Watch { is_checked: true } => {
                    self.watch().await?;
                    if let Some(what) = self.resumed.take() {
                        return Ok(what);
                    }
                }
                Step::Lines(_) => {
                    if let Some(what) = self.line().await? {
                        return Ok(what);
                    }
                }
            }
        }
    }

    /// Requests a page.
    async fn page(&mut self, next: Option<String>) -> Result<(), Trouble> {
        let token = next.map(|token| format!("&continue={}", query_value(&token))).unwrap_or_default();
        let text = self.text(&format!("limit={PAGE}{token}")).await?;
        let page: Page<'_> = serde_json::from_slice(&text).map_err(|error| Trouble::undecodable(&error))?;
        let items = page.items.unwrap_or_default();
        let items: Vec<Bytes> = items.into_iter().map(|item| text.slice_ref(item.get().as_bytes())).collect();
        let next = Some(page.metadata.next.clone()).filter(|token| !token.is_empty());
        // Without a revision it is no list, and would seem to be an empty one.
        self.revision = page.metadata.revision()?;
        self.step = Step::Items(items.into_iter(), next);
        Ok(())
    }

    /// Makes sure that the server has what was heard of. One that came back with an older store would be silent until it has
    /// reached that revision again, and all changes until then would be missed. A watch that is silent again although the
    /// server has something newer may be broken: then everything is listed.
    async fn check(&mut self) -> Result<(), Trouble> {
        let text = self.text("limit=1").await?;
        let newest: Versioned =
            serde_json::from_slice(&text).map_err(|error| Trouble::undecodable(&error))?;
        let number = |revision: &str| revision.parse::<u64>().ok();
        let (newest, known) = (number(&newest.metadata.revision()?), number(&self.revision));
        self.resumed = match (newest, known) {
            (Some(newest), Some(known)) if newest == known => Some(What::Current),
            (Some(newest), Some(known)) if newest > known && self.silences < SILENCES => Some(What::Resumed),
            _ => None,
        };
        let goes_on = self.resumed.is_some();
        // A list, which starts otherwise, has everything.
        self.newest = newest.filter(|_| goes_on).unwrap_or_default();
        self.step = if goes_on { Step::Watch { is_checked: true } } else { Step::Start };
        Ok(())
    }

    /// Starts the watch.
    async fn watch(&mut self) -> Result<(), Trouble> {
        self.step = Step::Watch { is_checked: false };
        let seconds = SHORTEST.mul_f64(1.0 + fraction()).as_secs();
        let revision = query_value(&self.revision);
        let query = format!(
            "watch=true&allowWatchBookmarks=true&resourceVersion={revision}&timeoutSeconds={seconds}"
        );
        let (client, request) = (self.connection.client(), self.request(&query, "PartialObjectMetadata")?);
        let limit = TIMEOUT.min(self.silence);
        let reader = match timeout(limit, client.request_stream(request)).await {
            // A watch that is silent from the beginning: a proxy may hold back all of an answer that does not end.
            Err(_) => {
                self.silences = self.silences.saturating_add(1);
                return Ok(());
            }
            Ok(Ok(reader)) => reader,
            Ok(Err(error)) => {
                let trouble = Trouble::of(&error);
                trouble.code.into_iter().for_each(|code| self.refused(code));
                return Err(trouble);
            }
        };
        let lines = Lines { reader: Box::pin(reader), began: Instant::now(), is_used: false };
        self.step = Step::Lines(lines);
        Ok(())
    }

    /// A watch was refused. If its revision is compacted, or for another reason again and again, a list is needed.
    fn refused(&mut self, code: u16) {
        self.refusals = self.refusals.saturating_add(1);
        let is_over = code == 410 || self.refusals >= REFUSALS;
        self.step = if is_over { Step::Start } else { Step::Watch { is_checked: false } };
        if is_over {
            self.refusals = 0;
        }
    }

    /// Reads a line of the watch. None: the watch has ended.
    async fn line(&mut self) -> Result<Option<What>, Trouble> {
        let silence = self.silence;
        let Step::Lines(lines) = &mut self.step else { return Ok(None) };
        let mut line = Vec::new();
        let read = async {
            let mut limited = (&mut lines.reader).take(LONGEST_LINE);
            limited.read_until(b'\n', &mut line).await
        };
        let was_used = lines.is_used;
        let (was_short, was_long) =
            (lines.began.elapsed() < TOO_SHORT, lines.began.elapsed() >= SHORTEST.saturating_sub(TOO_SHORT));
        match timeout(silence, read).await {
            // The connection may be dead without a sign.
            Err(_) => {
                self.silences = self.silences.saturating_add(1);
                self.step = Step::Watch { is_checked: false };
                return Ok(None);
            }
            Ok(Err(error)) => {
                self.step = Step::Watch { is_checked: false };
                return Err(Trouble::new(format!("the watch broke: {error}")));
            }
            Ok(Ok(0)) if was_short && !was_used => {
                self.step = Step::Watch { is_checked: false };
                return Err(Trouble::new("the server ended the watch at once"));
            }
            // A server that ends a watch before its time may be going to be replaced.
            Ok(Ok(0)) => {
                self.step = Step::Watch { is_checked: was_long };
                return Ok(None);
            }
            Ok(Ok(_)) => lines.is_used = true,
        }
        let line = Bytes::from(line);
        self.event(&line).inspect_err(|_| {
            // What the line would have said is not known.
            if matches!(self.step, Step::Lines(_)) {
                self.step = Step::Start;
            }
        })
    }

    fn event(&mut self, line: &Bytes) -> Result<Option<What>, Trouble> {
        let undecodable = |error| Trouble::undecodable(&error);
        let event: Line<'_> = serde_json::from_slice(line).map_err(undecodable)?;
        if event.kind == "ERROR" {
            let status: Status = serde_json::from_str(event.object.get()).unwrap_or_default();
            self.refused(status.code);
            return Err(Trouble { code: Some(status.code), why: status.message });
        }
        let found: Versioned = serde_json::from_str(event.object.get()).map_err(undecodable)?;
        let text = line.slice_ref(event.object.get().as_bytes());
        let what = match event.kind {
            "ADDED" | "MODIFIED" => What::Applied(text),
            "DELETED" => What::Deleted(text),
            "BOOKMARK" => What::Current,
            // A kind of event that does not exist yet.
            _ => return Ok(None),
        };
        self.revision = found.metadata.revision()?;
        (self.refusals, self.silences) = (0, 0);
        Ok(Some(what))
    }

    /// A request whose answer is of this kind where metadata is enough.
    fn request(&self, query: &str, metadata: &str) -> Result<Request<Vec<u8>>, Trouble> {
        let fields =
            self.fields.as_ref().map(|fields| format!("&fieldSelector={fields}")).unwrap_or_default();
        let uri = format!("{}?{query}{fields}", self.path);
        let accept = match self.form {
            Form::Whole => "application/json".to_owned(),
            Form::Metadata => format!("application/json;as={metadata};g=meta.k8s.io;v=v1,application/json"),
        };
        let request = Request::get(uri).header(ACCEPT, accept).body(Vec::new());
        request.map_err(|error| Trouble::new(format!("no such path: {error}")))
    }

    async fn text(&mut self, query: &str) -> Result<Bytes, Trouble> {
        let (client, request) = (self.connection.client(), self.request(query, "PartialObjectMetadataList")?);
        match timeout(TIMEOUT, client.request_text(request)).await {
            Err(_) => Err(Trouble::late()),
            Ok(text) => text.map(Bytes::from).map_err(|error| Trouble::of(&error)),
        }
    }
}
