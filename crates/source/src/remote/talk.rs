//! What is asked of a server: its names, and the files of a commit.

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
use crate::address::Place;
use crate::credentials::Access;
use crate::error::{TEXT_MAX, plain, reason};
use crate::refs::TAGS;
use crate::{Address, Refs};

/// A way to a server, and what is known of why it failed.
struct Way {
    transport: Box<dyn Transport>,
    problem: Box<dyn Fn() -> Option<Problem>>,
}

fn connect(
    address: &Address,
    access: &Access,
    network: &Network,
    attempt: &Arc<Attempt>,
    bytes: u64,
) -> Result<Way, Problem> {
    if let Place::Ssh(site) = address.place() {
        let (transport, session) = ssh::connect(site, access, network, attempt, bytes)?;
        return Ok(Way { transport, problem: Box::new(move || session.problem()) });
    }
    let link = http::Link::new(address, access, network, Arc::clone(attempt), bytes)?;
    let transport = http::transport(address, &link)?;
    Ok(Way { transport: Box::new(transport), problem: Box::new(move || link.problem()) })
}

impl Way {
    /// What has happened: what the connection knows is said better than what Git makes of it.
    fn problem(&self, error: &gix::Error, attempt: &Attempt, access: &Access) -> Problem {
        if let Some(over) = attempt.over() {
            return over.problem();
        }
        (self.problem)()
            .unwrap_or_else(|| Problem { here: true, ..Problem::new(plain(&access.hide(reason(error)))) })
    }

    fn greet(&mut self) -> gix::Result<Handshake> {
        // Credentials are sent with the first request, or not at all.
        let nobody = |_| Err(message("the server asks for credentials").raise());
        gix::protocol::handshake(&mut self.transport, Service::UploadPack, nobody, Vec::new(), &mut Discard)
    }
}

fn agent() -> (&'static str, Option<String>) {
    ("agent", Some(concat!("tidegate/", env!("CARGO_PKG_VERSION")).to_owned()))
}

/// The branches and tags of a repository, and its `HEAD`.
pub(crate) fn list(
    address: &Address,
    access: &Access,
    network: &Network,
    attempt: &Arc<Attempt>,
) -> Result<Refs, Problem> {
    let mut way = connect(address, access, network, attempt, network.limits.names_bytes)?;
    let found = names(&mut way).map_err(|error| way.problem(&error, attempt, access))?;
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

fn names(way: &mut Way) -> gix::Result<Vec<Ref>> {
    let greeting = way.greet()?;
    if let Some(refs) = greeting.refs {
        return Ok(refs);
    }
    // What others propose (`refs/pull/…`) may be a hundred times as much.
    let mut prefixes = RefPrefixes::new();
    prefixes.extend(["HEAD", "refs/heads/", "refs/tags/"].map(Into::into));
    let command = LsRefsCommand::new(Some(prefixes), &greeting.capabilities, agent());
    command.invoke_blocking(&mut way.transport, &mut Discard, false)
}

/// Fetches the files of a commit, without its history, or a tag, into a repository that has some commits already.
pub(crate) fn fetch(
    (address, access): (&Address, &Access),
    network: &Network,
    attempt: &Arc<Attempt>,
    into: (&gix::Repository, &[ObjectId]),
    (wanted, kind): (ObjectId, Kind),
) -> Result<(), Problem> {
    let mut way = connect(address, access, network, attempt, network.limits.pack_bytes)?;
    let told = Arc::new(Mutex::new(String::new()));
    let received = receive(&mut way, into, wanted, (attempt, network.limits.object_bytes), &told);
    let said = || plain(&access.hide(told.lock().unwrap_or_else(PoisonError::into_inner).clone()));
    received.map_err(|error| match (way.problem(&error, attempt, access), said()) {
        (problem, said) if said.is_empty() || attempt.over().is_some() => problem,
        (problem, said) => {
            let what = format!("{}; the server says: {said}", problem.what);
            Problem { what, here: false, ..problem }
        }
    })?;
    let (git, _) = into;
    match git.find_header(wanted) {
        Ok(found) if found.kind() == kind => Ok(()),
        _ => Err(Problem::new(format!("the server has no {kind} of that name"))),
    }
}

fn receive(
    way: &mut Way,
    (git, known): (&gix::Repository, &[ObjectId]),
    commit: ObjectId,
    (attempt, object_bytes): (&Attempt, usize),
    told: &Arc<Mutex<String>>,
) -> gix::Result<()> {
    let greeting = way.greet()?;
    let version = greeting.server_protocol_version;
    let mut features = Command::Fetch.default_features(version, &greeting.capabilities);
    features.push(agent());
    Response::check_required_features(version, &features)?;
    let mut arguments = Arguments::new(version, features, false);
    arguments.want(commit);
    if arguments.can_use_shallow() {
        // Older servers answer to what is known in several turns; they send all of the commit.
        if version == Protocol::V2 {
            known.iter().for_each(|id| arguments.shallow(id));
            known.iter().for_each(|id| arguments.have(id));
        }
        arguments.deepen(1);
    }
    let mut reader = arguments.send(&mut way.transport, true).map_err(|error| error.raise())?;
    let response = Response::from_line_reader(version, &mut reader, true, false)?;
    if !response.has_pack() {
        return Err(message("the server sends no objects").raise());
    }
    let heard = Arc::clone(told);
    reader.set_progress_handler(Some(Box::new(move |is_error, text: &[u8]| {
        if is_error {
            let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
            if heard.len() < TEXT_MAX {
                heard.push_str(&String::from_utf8_lossy(text));
            }
        }
        match attempt.over() {
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
        attempt.flag(),
        Some(git.objects.clone()),
        git.object_hash(),
        options,
    )?;
    // Nobody but us removes anything here.
    if let Some(keep) = written.keep_path {
        let _ = std::fs::remove_file(keep);
    }
    Ok(())
}
