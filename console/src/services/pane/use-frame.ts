// The frame of a service: opens an address for it, talks with its page, and knows where the page is.
import { type RefObject, useEffect, useEffectEvent, useRef, useState } from 'react';
import { openService } from '../../api';
import type { Place, Rect } from '../../bridge/messages';
import { touch } from '../../presence';
import { Channel, type Shot } from './channel';
import { addError, NO_ERRORS, type PageErrors } from './page-errors';
import { isFrameable, openable } from './path';
import { storePane } from './stored';
import { strings } from './strings';

const LOOK_MS = 1000;

interface Opened {
  url: string;
  origin: string;
  /** Each load from the beginning is another frame, so that the browser's history does not grow by it. */
  round: number;
}

export interface Frame {
  ref: RefObject<HTMLIFrameElement | null>;
  opened: Opened | null;
  error: unknown;
  place: Place;
  errors: PageErrors;
  clearErrors: () => void;
  onLoad: () => void;
  /** Loads the page from the beginning, by a new address. */
  open: (path?: string) => void;
  go: (path: string) => void;
  reload: () => void;
  step: (to: 'back' | 'forward') => void;
  capture: (rect: Rect) => Promise<Shot>;
  scroll: RefObject<{ x: number; y: number }>;
}

export function useFrame(serviceId: string, wanted: boolean, firstPath: string): Frame {
  const ref = useRef<HTMLIFrameElement>(null);
  const channel = useRef<Channel | null>(null);
  const scroll = useRef({ x: 0, y: 0 });
  /** Whether the page answers; whether it said so since the last one was loaded. */
  const isReady = useRef(false);
  const isNew = useRef(false);
  /** A `ready` that answers a greeting is not of a new page. */
  const greeted = useRef(false);
  const [round, setRound] = useState(0);
  const [opened, setOpened] = useState<Opened | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [place, setPlace] = useState<Place>({ path: firstPath, title: '' });
  const [errors, setErrors] = useState(NO_ERRORS);
  const path = useEffectEvent(() => openable(place.path));

  useEffect(() => {
    if (!wanted) return;
    let current = true;
    openService(serviceId, { path: path(), frame: true }).then(
      ({ url, origin }) => {
        if (!current) return;
        if (isFrameable(url, origin, location.origin)) setOpened({ url, origin, round });
        else setError(new Error(strings.noAddress));
      },
      (cause: unknown) => current && setError(cause),
    );
    return () => {
      current = false;
      setOpened(null);
      setError(null);
      setErrors(NO_ERRORS);
    };
  }, [serviceId, wanted, round]);

  useEffect(() => {
    if (!opened) return;
    const talk = new Channel({
      page: () => ref.current?.contentWindow ?? null,
      origin: opened.origin,
      onNews(news) {
        switch (news.type) {
          case 'ready':
          case 'location': {
            const { path, title, back, forward } = news;
            if (news.type === 'ready') {
              if (!greeted.current) setErrors(NO_ERRORS);
              isReady.current = true;
              isNew.current = !greeted.current;
              greeted.current = false;
            }
            setPlace({ path, title, back, forward });
            storePane(serviceId, { path: openable(path) });
            break;
          }
          case 'scroll':
            scroll.current = { x: news.x, y: news.y };
            break;
          case 'error':
            setErrors((all) => addError(all, news, Date.now()));
            break;
        }
      },
    });
    const receive = (event: MessageEvent) => talk.receive(event);
    window.addEventListener('message', receive);
    channel.current = talk;
    isReady.current = isNew.current = false;
    return () => {
      window.removeEventListener('message', receive);
      channel.current = null;
      talk.close();
    };
  }, [opened, serviceId]);

  // What somebody does in the frame is not seen here. The browser tells that there was something, which no page can fake.
  useEffect(() => {
    if (!opened) return;
    const timer = setInterval(() => {
      if (document.activeElement === ref.current && navigator.userActivation?.isActive) touch();
    }, LOOK_MS);
    return () => clearInterval(timer);
  }, [opened]);

  function open(path?: string): void {
    if (path !== undefined) setPlace({ path, title: '' });
    setRound((last) => last + 1);
  }
  return {
    ref,
    opened: wanted ? opened : null,
    error,
    place,
    errors,
    clearErrors: () => setErrors(NO_ERRORS),
    onLoad() {
      if (isNew.current) {
        isNew.current = false;
        return;
      }
      // A page without our script, as far as is known.
      isReady.current = false;
      setPlace((last) => ({ ...last, back: false, forward: false }));
      greeted.current = true;
      channel.current?.send({ type: 'hello' });
    },
    open,
    go(path) {
      storePane(serviceId, { path });
      // The page says where it is, if it can.
      setPlace((last) => ({ ...last, path }));
      if (isReady.current && channel.current) channel.current.ask({ type: 'navigate', path }, () => open(path));
      else open(path);
    },
    reload() {
      if (isReady.current && channel.current) channel.current.ask({ type: 'reload' }, () => open());
      else open();
    },
    step: (to) => channel.current?.send({ type: to }),
    capture: (rect) => channel.current?.capture(rect) ?? Promise.reject(new Error(strings.silent)),
    scroll,
  };
}
