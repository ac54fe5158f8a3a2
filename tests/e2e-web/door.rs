//! Who is let in, and what they are kept from.

use serde_json::json;

use crate::bench::Bench;
use crate::browser::Browser;
use crate::provider::{Manners, Provider};
use crate::service::{Different, OPERATOR, READER, Service, folder};
use crate::wire;

const NO_SET: Different = Different { rollout: None, has_no_set: true, is_gated: false };

/// Whether there is any button that has something done.
const BUTTONS: &str = "return document.querySelectorAll('main .actions button').length";

pub fn the_address_that_is_printed_signs_in_and_another_browser_is_asked_for_a_token() {
    let bench: Bench = folder(&NO_SET);
    let mut serving = bench.start(&["serve", "--sim", "--apps", "fleet"]);
    let line = serving.await_line("the page is at");
    let address = line.split_once("http://").unwrap().1.split(' ').next().unwrap().to_owned();
    let (own, token) = address.split_once("/#token=").unwrap();
    serving.await_line("serving 3 applications");
    let url = format!("http://{own}");
    let mut browser = Browser::new(&url);
    browser.open(&format!("http://{address}"));
    browser.await_text("3 Applications");
    // The token does not stay in the address, nor can a script read the cookie.
    assert_eq!(browser.run("return location.href"), json!(format!("{url}/")));
    assert_eq!(browser.run("return document.cookie"), json!(""));
    browser.open("/applications/argocd/backend");
    browser.until("document.querySelector('[data-do=\"Sync…\"]')");
    browser.is_clean();
    // Whoever has not seen the address, sees nothing, by the page or by the API.
    let mut other = Browser::new(&url);
    other.open("/applications/argocd/backend");
    other.until("document.querySelector('h1')?.textContent === 'Sign in'");
    assert!(!other.text().contains("backend"));
    let answer = wire::ask(own, "GET", "/api/v1/applications", &[], None);
    assert_eq!(answer.status, 401, "{}", answer.body);
    other.is_clean();
    // The address is good for a page that is open already, too.
    other.run(&format!("location.hash = 'token={token}'"));
    other.until("document.querySelector('[data-do=\"Sync…\"]')");
    assert_eq!(other.run("return location.hash"), json!(""));
    // Nor does anybody know the token by what is told of the process.
    let ops = bench.run(&["ops", "list", "-o", "json"]).expect_code(0);
    assert!(!ops.out.contains(token) && !ops.err.contains(token));
    serving.signal("TERM");
    serving.finish().expect_code(0);
}

pub fn a_token_signs_in_and_its_end_ends_the_session() {
    let service = Service::new(&NO_SET);
    let browser = Browser::new(&service.url);
    browser.open("/applications/argocd/backend");
    browser.write("#token", "nobody-has-this-token-here");
    browser.key(crate::browser::key::ENTER);
    browser.until("document.getElementById('token-problem').textContent.includes('does not count')");
    browser.write("#token", OPERATOR);
    browser.key(crate::browser::key::ENTER);
    // Where they wanted to go.
    browser.until("document.querySelector('h1')?.textContent === 'backend'");
    browser.until("document.getElementById('who').textContent.includes('ann')");
    // It is there after a reload, and gone when the token is.
    browser.open("/");
    browser.await_text("3 Applications");
    service.bench.write_closed("tokens", format!("ben read-only {READER}\n"));
    browser.until("document.querySelector('h1')?.textContent === 'Sign in' || (dispatchEvent(new PopStateEvent('popstate')), false)");
    let words = "document.getElementById('token-problem').textContent";
    browser.until(&format!("{words} === 'You are signed out; sign in again.'"));
    browser.write("#token", READER);
    browser.key(crate::browser::key::ENTER);
    browser.await_text("3 Applications");
    browser.click("#who button");
    browser.until("document.querySelector('h1')?.textContent === 'Sign in'");
    browser.open("/operations");
    browser.until("document.querySelector('h1')?.textContent === 'Sign in'");
    service.end();
}

/// The provider is another site than the service, as a browser sees it: another name of this machine.
pub fn somebody_signs_in_with_a_provider_and_out_again() {
    let manners = Manners { shows_page: true, secret: None, ..Manners::default() };
    let provider = Provider::at("localhost", manners);
    let bench = folder(&NO_SET);
    bench.write_closed("oidc.yaml", provider.settings("name: a small provider\n"));
    let service = Service::with(bench, &["--listen", "0", "--tokens", "tokens", "--oidc", "oidc.yaml"]);
    let mut browser = Browser::new(&service.url);
    let heading = |text: &str| format!("document.querySelector('h1')?.textContent === {}", json!(text));
    let sign_in = |browser: &Browser| {
        browser.until("document.querySelector('a.button')?.textContent === 'Sign in with a small provider'");
        browser.click("a.button");
        browser.until(&heading("Who are you?"));
        browser.click("#agree");
    };
    browser.open("/applications/argocd/backend?from=elsewhere");
    browser.until(&heading("Sign in"));
    browser.until("document.getElementById('token')");
    sign_in(&browser);
    // Where they wanted to go, with what they may do.
    browser.until(&heading("backend"));
    browser.until("document.getElementById('who').textContent.includes('oidc:ann (operator)')");
    browser.until("document.querySelector('[data-do=\"Sync…\"]')");
    let address = format!("{}/applications/argocd/backend?from=elsewhere", service.url);
    assert_eq!(browser.run("return [location.href, document.cookie]"), json!([address, ""]));
    browser.open("/");
    browser.await_text("3 Applications");
    browser.is_clean();
    // What they do is recorded under their name.
    service.wait(&[]);
    let told = browser.run_async(
        "(async () => { const session = await (await fetch('/api/v1/session')).json();
         const headers = {'content-type': 'application/json', 'x-tidegate-csrf': session.csrf};
         done((await fetch('/api/v1/applications/argocd/backend/sync', {method: 'POST', headers, body: '{}'})).status); })().catch((error) => done(String(error)))",
    );
    assert_eq!(told, json!(202));
    service
        .until("/api/v1/operations?application=backend&by=oidc%3Aann", |found| found["matching"] == json!(1));
    browser.click("#who button");
    browser.until(&heading("Sign in"));
    browser.open("/operations");
    browser.until(&heading("Sign in"));
    // Whoever is in no group with a role is told so, and is still not signed in.
    provider
        .change(|manners| manners.person = json!({"preferred_username": "eve", "groups": ["<b>guests</b>"]}));
    sign_in(&browser);
    browser.until(&heading("You are not signed in"));
    browser.await_text(
        "a small provider says that you are eve, and neither you nor any of your groups has a role here",
    );
    browser.await_text("<b>guests</b>");
    browser.click("main a");
    browser.until(&heading("Sign in"));
    service.end();
}

pub fn whoever_may_look_has_no_buttons() {
    let service = Service::new(&NO_SET);
    service.wait(&[]);
    let mut browser = service.browser(READER);
    browser.until("document.getElementById('who').textContent.includes('may look')");
    browser.open("/applications/argocd/backend");
    browser.await_text("In the order of the next sync");
    browser.await_text("Deployment fleet/backend");
    assert_eq!(browser.run(BUTTONS), json!(0));
    // And what the page does not offer, the API refuses as well.
    let told = browser.run_async(
        "(async () => { const session = await (await fetch('/api/v1/session')).json();
         const headers = {'content-type': 'application/json', 'x-tidegate-csrf': session.csrf};
         done((await fetch('/api/v1/applications/argocd/backend/sync', {method: 'POST', headers, body: '{}'})).status); })().catch((error) => done(String(error)))",
    );
    assert_eq!(told, json!(403));
    browser.complaints();
    browser.open("/");
    browser.await_text("3 Applications");
    browser.is_clean();
    service.end();
}

pub fn without_tokens_those_on_this_machine_look_and_have_no_buttons() {
    let service = Service::with(folder(&NO_SET), &["--listen", "0"]);
    let mut browser = Browser::new(&service.url);
    browser.open("/");
    browser.await_text("3 Applications");
    browser.until("document.getElementById('who').textContent.includes('may look')");
    browser.open("/applications/argocd/backend");
    browser.await_text("In the order of the next sync");
    assert_eq!(browser.run(BUTTONS), json!(0));
    browser.is_clean();
    service.end();
}

pub fn what_cannot_be_sent_and_a_session_that_is_over_are_told_in_words_for_people() {
    let service = Service::new(&NO_SET);
    let mut browser = service.browser(OPERATOR);
    browser.open("/applications/argocd/backend");
    // What the browser gets when it asks for something by a path that ends like this.
    let gets = |path: &str, answer: &str| {
        browser.run(&format!(
            "window.asked ??= window.fetch;
             window.fetch = (path, options) => (path.endsWith('{path}') ? {answer} : window.asked(path, options))"
        ));
    };
    // A connection that breaks may do so before or after.
    gets("/refresh", "Promise.reject(new TypeError('Failed to fetch'))");
    browser.press("Refresh…");
    browser.press("confirm");
    let problem = "document.querySelector('dialog p.problem:not([hidden])')?.textContent";
    browser.until(&format!("{problem} === 'the service does not answer: nobody knows whether this has arrived; look first, then press again'"));
    browser.press("leave");
    browser.until("!document.querySelector('dialog')");
    // A session that is over while somebody is asked.
    let told = json!({"code": "unauthorized", "message": "this needs a token", "next": "send a header"});
    gets("/refresh", &format!("Promise.resolve(new Response(JSON.stringify({told}), {{status: 401}}))"));
    browser.press("Refresh…");
    browser.press("confirm");
    let asked = "document.querySelector('h1')?.textContent === 'Sign in' && document.getElementById('token-problem').textContent === 'You are signed out; sign in again.'";
    browser.until(&format!(
        "{asked} && !document.querySelector('dialog') && document.activeElement.id === 'token'"
    ));
    assert!(!browser.text().contains("send a header"));
    browser.write("#token", OPERATOR);
    browser.key(crate::browser::key::ENTER);
    browser.until("document.querySelector('h1')?.textContent === 'backend'");
    // Where no more may listen, that is told; where the session is over, who they are is asked, and nothing else is said.
    browser.run(
        "window.EventSource = class extends EventTarget {
           static CLOSED = 2;
           readyState = 2;
           constructor() { super(); setTimeout(() => this.dispatchEvent(new Event('error')), 50); }
           close() {}
         }",
    );
    browser.click("nav a[href='/operations']");
    let notice = "document.getElementById('notice')";
    browser.until(&format!("{notice}.textContent.startsWith('The service answers')"));
    let nobody = json!({"name": "", "role": null, "tokens": true, "provider": null, "csrf": null});
    gets("/api/v1/session", &format!("Promise.resolve(new Response(JSON.stringify({nobody})))"));
    browser.until(&format!("{asked} && {notice}.hidden"));
    browser.is_clean();
    service.end();
}

pub fn an_address_that_leads_nowhere_says_so_and_leads_back() {
    let service = Service::new(&NO_SET);
    let browser = service.browser(READER);
    browser.open("/nowhere");
    browser.until("document.querySelector('h1')?.textContent === 'There is nothing here'");
    browser.click("section.panel a");
    browser.until("document.querySelector('h1')?.textContent === 'Applications'");
    // Programs are told in their own way.
    for (target, headers) in [("/nowhere", &["accept: */*"][..]), ("/api/v1/nowhere", &["accept: text/html"])]
    {
        let answer = service.ask("GET", target, headers, None);
        assert_eq!(answer.status, 404, "{target}");
        assert!(answer.body.contains("\"not-found\""), "{target}: {}", answer.body);
    }
    service.end();
}
