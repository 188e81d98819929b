// A fault in a page leaves the rest of the console standing.
import { Component, type ReactNode } from 'react';
import { isApiError } from '../api/error';
import { Button, ErrorBanner } from '../ui';
import { strings } from './strings';

interface Props {
  /** A new value, such as the path, tries again. */
  resetKey: string;
  children: ReactNode;
}

export class Boundary extends Component<Props, { error: unknown; key: string }> {
  state = { error: null as unknown, key: this.props.resetKey };

  static getDerivedStateFromError(error: unknown) {
    return { error };
  }

  static getDerivedStateFromProps(props: Props, state: { error: unknown; key: string }) {
    return props.resetKey === state.key ? null : { error: null, key: props.resetKey };
  }

  render() {
    const { error } = this.state;
    if (error === null) return this.props.children;
    return (
      <div className="page narrow">
        <h1>{strings.oops}</h1>
        <ErrorBanner error={error} onRetry={() => this.setState({ error: null })} />
        {!isApiError(error) && <p className="muted">{strings.oopsText}</p>}
        <div className="row">
          <Button onPress={() => location.reload()}>{strings.reload}</Button>
        </div>
      </div>
    );
  }
}
