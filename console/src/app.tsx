// Routes: sign-in, welcome and preview stand alone, everything else is inside the shell.
import { QueryClientProvider } from '@tanstack/react-query';
import { type ReactNode, Suspense } from 'react';
import { I18nProvider, RouterProvider } from 'react-aria-components';
import { matchRoute, Route, Router, Switch, useLocation, useRouter } from 'wouter';
import { lazyPart } from './lazy-part';
import { PAGES } from './pages';
import NotFound from './pages/not-found';
import { queryClient } from './query-client';
import { SessionGate } from './session';
import { Boundary } from './shell/boundary';
import { Shell } from './shell/shell';
import { Loading, SkeletonRows, Toasts } from './ui';

const Welcome = lazyPart(() => import('./pages/welcome'));
const SignIn = lazyPart(() => import('./pages/sign-in'));
const Invitation = lazyPart(() => import('./pages/invitation'));
const Preview = lazyPart(() => import('./pages/preview'));

function AriaRouter({ children }: { children: ReactNode }) {
  const [, navigate] = useLocation();
  const { base } = useRouter();
  return (
    <RouterProvider navigate={navigate} useHref={(href) => (href.startsWith('/') ? base + href : href)}>
      {children}
    </RouterProvider>
  );
}

function Inside() {
  const [path] = useLocation();
  const { parser } = useRouter();
  const page = PAGES.find((entry) => matchRoute(parser, entry.path, path)[0]);
  return (
    <SessionGate>
      <Shell current={page?.under ?? page?.path ?? ''} slim={page?.slim}>
        <Boundary resetKey={path}>
          <Suspense fallback={<PageLoading />}>
            <Switch>
              {PAGES.map((entry) => (
                <Route key={entry.path} path={entry.path} component={entry.component} />
              ))}
              <Route component={NotFound} />
            </Switch>
          </Suspense>
        </Boundary>
      </Shell>
    </SessionGate>
  );
}

function PageLoading() {
  return (
    <div className="page">
      <SkeletonRows />
    </div>
  );
}

export function App() {
  return (
    <QueryClientProvider client={queryClient}>
      <I18nProvider locale="en-US">
        <Router base="/console">
          <AriaRouter>
            <Suspense fallback={<Loading />}>
              <Switch>
                <Route path="/welcome" component={Welcome} />
                <Route path="/sign-in" component={SignIn} />
                <Route path="/invitation" component={Invitation} />
                <Route path="/preview">
                  <SessionGate>
                    <Preview />
                  </SessionGate>
                </Route>
                <Route>
                  <Inside />
                </Route>
              </Switch>
            </Suspense>
            <Toasts />
          </AriaRouter>
        </Router>
      </I18nProvider>
    </QueryClientProvider>
  );
}
