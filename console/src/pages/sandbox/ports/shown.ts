// Which service the address asks for.

const ID = /^svc_[a-z0-9]{1,40}$/;

/** The service in the pane, of `?service=…`. */
export function shownService(params: URLSearchParams): string | null {
  const id = params.get('service');
  return id !== null && ID.test(id) ? id : null;
}
