import streamlit as st

st.title("Streamlit says hello")
if st.button("Count"):
    st.session_state.count = st.session_state.get("count", 0) + 1
st.markdown(f"Counted {st.session_state.get('count', 0)}")
