//! Requests of the Git protocol: listing refs and fetching a commit.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use gix::ObjectId;
use gix::error::{ErrorExt as _, message};
use gix::objs::Kind;
use gix::odb::pack;
use gix::progress::Discard;
use gix::protocol::fetch::{Arguments, Response};
use gix::protocol::handshake::Ref;
use gix::protocol::ls_refs::RefPrefixes;
use gix::protocol::{Command, Handshake, LsRefsCommand};
use gix_transport::client::blocking_io::Transport;
use gix_transport::{Protocol, Service};

use super::{Attempt, Network, Problem, http, ssh};
use crate::address::AddressKind;
use crate::credentials::AccessSettings;
use crate::error::{TEXT_MAX, git_error_text, to_line};
use crate::refs::TAGS;
use crate::{Address, Refs};

/// Connection for the Git protocol. `problem` returns the cause of a failure.
struct GitConnection {
    transport: Box<dyn Transport>,
    problem: Box<dyn Fn() -> Option<Problem>>,
}

fn open_connection(
    address: &Address,
    access: &AccessSettings,
    network: &Network,
    attempt: &Arc<Attempt>,
    bytes: u64,
) -> Result<GitConnection, Problem> {
    if let AddressKind::Ssh(site) = address.kind() {
        let (transport, session) = ssh::connect_ssh(site, access, network, attempt, bytes)?;
        return Ok(GitConnection { transport, problem: Box::new(move || session.problem()) });
    }
    let link = http::Link::new(address, access, network, Arc::clone(attempt), bytes)?;
    let transport = http::create_transport(address, &link)?;
    Ok(GitConnection { transport: Box::new(transport), problem: Box::new(move || link.problem()) })
}

impl GitConnection {
    /// Returns the cause of a failure. Prefers the connection's message, which is more specific than the Git
    /// library's error.
    fn problem(&self, error: &gix::Error, attempt: &Attempt, access: &AccessSettings) -> Problem {
        if let Some(over) = attempt.end_reason() {
            return over.to_problem();
        }
        (self.problem)().unwrap_or_else(|| Problem {
            can_be_local: true,
            ..Problem::new(to_line(&access.mask_secrets(git_error_text(error))))
        })
    }

    fn handshake(&mut self) -> gix::Result<Handshake> {
        // Any credentials are already in the first request, so the library has no reason to ask for them.
        let refuse = |_| Err(message("the server requires credentials").raise());
        gix::protocol::handshake(&mut self.transport, Service::UploadPack, refuse, Vec::new(), &mut Discard)
    }
}

fn client_agent() -> (&'static str, Option<String>) {
    ("agent", Some(concat!("tidegate/", env!("CARGO_PKG_VERSION")).to_owned()))
}

/// Lists the branches, the tags and `HEAD`.
pub(crate) fn list_refs(
    address: &Address,
    access: &AccessSettings,
    network: &Network,
    attempt: &Arc<Attempt>,
) -> Result<Refs, Problem> {
    let mut way = open_connection(address, access, network, attempt, network.limits.names_bytes)?;
    let found = list_names(&mut way).map_err(|error| way.problem(&error, attempt, access))?;
    let mut refs = Refs::default();
    for one in found {
        let (name, id, peeled) = one.unpack();
        if let (Some(tag), Some(_)) = (id, peeled)
            && name.starts_with(TAGS.as_bytes())
        {
            refs.tags.insert(name.to_string(), tag.to_owned());
        }
        let Some(id) = peeled.or(id).filter(|_| !matches!(one, Ref::Unborn { .. })) else { continue };
        if name == "HEAD" {
            refs.head = Some(id.to_owned());
        } else {
            refs.names.insert(name.to_string(), id.to_owned());
        }
    }
    Ok(refs)
}

fn list_names(way: &mut GitConnection) -> gix::Result<Vec<Ref>> {
    let greeting = way.handshake()?;
    if let Some(refs) = greeting.refs {
        return Ok(refs);
    }
    // Pull requests (`refs/pull/…`) may account for a hundred times as many refs, so request only those that
    // matter.
    let mut prefixes = RefPrefixes::new();
    prefixes.extend(["HEAD", "refs/heads/", "refs/tags/"].map(Into::into));
    let command = LsRefsCommand::new(Some(prefixes), &greeting.capabilities, client_agent());
    command.invoke_blocking(&mut way.transport, &mut Discard, false)
}

/// Commit or annotated tag to fetch.
#[derive(Clone, Copy)]
pub(crate) struct WantedObject {
    pub id: ObjectId,
    pub kind: Kind,
}

/// Fetches a tag, or a commit without its history, into `git`. `known` lists the commits that it already has.
pub(crate) fn fetch_object(
    address: &Address,
    access: &AccessSettings,
    network: &Network,
    attempt: &Arc<Attempt>,
    git: &gix::Repository,
    known: &[ObjectId],
    wanted: WantedObject,
) -> Result<(), Problem> {
    let WantedObject { id, kind } = wanted;
    let mut way = open_connection(address, access, network, attempt, network.limits.pack_bytes)?;
    let told = Arc::new(Mutex::new(String::new()));
    let received = receive_pack(&mut way, git, known, id, attempt, network.limits.object_bytes, &told);
    let said = || to_line(&access.mask_secrets(told.lock().unwrap_or_else(PoisonError::into_inner).clone()));
    received.map_err(|error| match (way.problem(&error, attempt, access), said()) {
        (problem, said) if said.is_empty() || attempt.end_reason().is_some() => problem,
        (problem, said) => {
            let what = format!("{}; the server reported: {said}", problem.message);
            Problem { message: what, can_be_local: false, ..problem }
        }
    })?;
    match git.find_header(id) {
        Ok(found) if found.kind() == kind => Ok(()),
        _ => Err(Problem::new(format!("the server did not send the {kind}"))),
    }
}

fn receive_pack(
    way: &mut GitConnection,
    git: &gix::Repository,
    known: &[ObjectId],
    commit: ObjectId,
    attempt: &Attempt,
    object_bytes: usize,
    told: &Arc<Mutex<String>>,
) -> gix::Result<()> {
    let greeting = way.handshake()?;
    let version = greeting.server_protocol_version;
    let mut features = Command::Fetch.default_features(version, &greeting.capabilities);
    features.push(client_agent());
    Response::check_required_features(version, &features)?;
    let mut arguments = Arguments::new(version, features, false);
    arguments.want(commit);
    if arguments.can_use_shallow() {
        // Older protocol versions negotiate in several rounds, so don't announce known commits.
        if version == Protocol::V2 {
            known.iter().for_each(|id| arguments.shallow(id));
            known.iter().for_each(|id| arguments.have(id));
        }
        arguments.deepen(1);
    }
    let mut reader = arguments.send(&mut way.transport, true).map_err(|error| error.raise())?;
    let response = Response::from_line_reader(version, &mut reader, true, false)?;
    if !response.has_pack() {
        return Err(message("the server sent no objects").raise());
    }
    let heard = Arc::clone(told);
    reader.set_progress_handler(Some(Box::new(move |is_error, text: &[u8]| {
        if is_error {
            let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
            if heard.len() < TEXT_MAX {
                heard.push_str(&String::from_utf8_lossy(text));
            }
        }
        match attempt.end_reason() {
            Some(_) => ControlFlow::Break(()),
            None => ControlFlow::Continue(()),
        }
    })));
    let options = pack::bundle::write::Options {
        thread_limit: Some(1),
        alloc_limit_bytes: Some(object_bytes),
        ..Default::default()
    };
    let written = pack::Bundle::write_to_directory(
        &mut reader,
        Some(&git.objects.store_ref().path().join("pack")),
        &mut Discard,
        attempt.end_flag(),
        Some(git.objects.clone()),
        git.object_hash(),
        options,
    )?;
    // The keep file protects the pack from `git gc`, which never runs here.
    if let Some(keep) = written.keep_path {
        let _ = std::fs::remove_file(keep);
    }
    Ok(())
}
