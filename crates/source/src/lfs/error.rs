//! What can be wrong with files that Git LFS keeps.

/// Why the content of files that Git LFS keeps could not be had. Holds nothing that is secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LfsError {
    /// Nobody says where the objects are.
    #[error("the repository {repository}: {files} cannot be had from Git LFS: {reason}{}{hint}", if hint.is_empty() { "" } else { "; " })]
    Server {
        /// The repository's address, as it is shown to people.
        repository: String,
        /// The path of the first file, and how many more.
        files: String,
        /// What the server or the connection said.
        reason: String,
        /// What to do about it; empty where nothing is known to help.
        hint: &'static str,
    },
    /// The object of one file is not to be had.
    #[error(
        "the repository {repository}: {file} cannot be had from Git LFS: its object {oid}: {reason}; {hint}"
    )]
    Object {
        /// The repository's address, as it is shown to people.
        repository: String,
        /// Its path.
        file: String,
        /// What its content is known by, in hexadecimal.
        oid: String,
        /// What the server or the connection said.
        reason: String,
        /// What to do about it.
        hint: &'static str,
    },
    /// What was fetched is not what the repository asks for.
    #[error(
        "the repository {repository}: {file} is not what its pointer of Git LFS says: {found}; push the right object with `git lfs push --object-id origin {oid}`, or commit the file anew"
    )]
    Mismatch {
        /// The repository's address, as it is shown to people.
        repository: String,
        /// Its path.
        file: String,
        /// What its content should be known by, in hexadecimal.
        oid: String,
        /// What is there, and what should be.
        found: String,
    },
    /// The repository says that its objects are somewhere where nobody asks for them.
    #[error("the repository {repository}: its .lfsconfig {reason}; correct it, or take it away")]
    Config {
        /// The repository's address, as it is shown to people.
        repository: String,
        /// What in it is wrong.
        reason: &'static str,
    },
    /// Programs would have to make the content.
    #[error(
        "the repository {repository}: {file} is a pointer of Git LFS with extensions, whose programs are not run; commit it without them"
    )]
    Extended {
        /// The repository's address, as it is shown to people.
        repository: String,
        /// Its path.
        file: String,
    },
    /// What is fetched leads to others again and again.
    #[error(
        "the repository {repository}: {file} and others of Git LFS are still missing after they were fetched {rounds} times; compare again when less is read of this repository, or keep kustomizations in Git itself"
    )]
    Endless {
        /// The repository's address, as it is shown to people.
        repository: String,
        /// The first file that is missing.
        file: String,
        /// How often.
        rounds: usize,
    },
}
