//! Test control plane for manual use. Runs until standard input is closed or the program is stopped. Started
//! by `just control-plane`.

use std::io::{self, Read as _, Write as _};

use tidegate_testkit::kube::{ControlPlane, KubeError, Options, User};

fn main() -> Result<(), KubeError> {
    let control = ControlPlane::start(Options::default())?;
    let kubeconfig = control.kubeconfig(User::ENGINE);
    let mut out = io::stdout().lock();
    // Ignore errors: the reader may have closed its end.
    let _ = writeln!(out, "export KUBECONFIG={}", kubeconfig.display()).and_then(|()| out.flush());
    eprintln!("Kubernetes 1.{} at {}; it stops with this program (Ctrl-C)", control.minor(), control.url());
    let _ = io::stdin().read_to_end(&mut Vec::new());
    Ok(())
}
